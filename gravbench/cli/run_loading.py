"""Runs, suites, references and referees for the verbs that judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from gravbench.analysis.identity import TAU_FLOAT32
from gravbench.analysis.loaded import LoadedRun, facts_of, load_run
from gravbench.decoding.costs import measured_costs
from gravbench.errors import GravbenchError, NotComparableError, UsageError
from gravbench.gate.policy import Policy, load_policy
from gravbench.gate.reference import ReferenceArm
from gravbench.omnidocbench.result_file import reference_digest
from gravbench.options import DEFAULT_BACKEND
from gravbench.pages.reader import cut_region, open_page
from gravbench.pages.regions import PageSample, Region
from gravbench.protocols import ForcedPass, Referee
from gravbench.records import Request
from gravbench.resources import data_root
from gravbench.runner.samples import samples_of_run
from gravbench.suites.data import AnySample
from gravbench.suites.manifest import Suite, load_suite, suite_digest
from gravbench.suites.page_folder import read_page_folder

if TYPE_CHECKING:
    from gravbench.decoding.protocols import StepModel

ROOT = "reference_outputs"


def shipped_reference(suite: str) -> Path:
    """Where the reference outputs of a suite that ship lie; the folder need not exist."""
    return data_root(ROOT) / suite


def policy_of(arm: ReferenceArm, extra: Sequence[str | Path] = ()) -> Policy:
    """The default policy under the arm's own tolerances, under `extra`."""
    tolerances = () if arm.tolerances is None else (arm.tolerances,)
    return load_policy([*tolerances, *extra])


NOISE_SAMPLES = 30
DEFAULT_BLOCK = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class RefereeSetup:
    """A referee and the logit gap below which it calls a tie."""

    referee: Referee | None = None
    tau: float = TAU_FLOAT32
    passes: tuple[ForcedPass, ...] = ()
    """Teacher-forcing in float32, then in the run's own precision where that is another."""


def load_with_facts(path: Path) -> LoadedRun:
    """A finished run with what its suite says about samples; a suite that is gone or changed is a note."""
    return load_with_samples(path)[0]


def load_with_samples(path: Path) -> tuple[LoadedRun, tuple[AnySample, ...]]:
    """`load_with_facts`, and the run's samples; none where its suite is gone or changed."""
    run = load_run(path)
    try:
        _, samples = same_suite_of(run)
    except GravbenchError as error:
        lost = "no breakdown by page and category, no images and no ground truth"
        return replace(run, notes=(f"{lost}: {error.message}",)), ()
    return replace(run, facts={**run.facts, **facts_of(samples)}), samples


def same_suite_of(run: LoadedRun) -> tuple[Suite, tuple[AnySample, ...]]:
    """`suite_of`; `NotComparableError` where the suite has changed since the run."""
    suite, samples = suite_of(run)
    if suite_digest(suite) != run.manifest.identity.suite_sha:
        raise NotComparableError(
            f"suite {suite.name} has changed since the run",
            hint="Use the version of the suite the run was made on.",
        )
    return suite, samples


def suite_of(run: LoadedRun) -> tuple[Suite, tuple[AnySample, ...]]:
    """The suite a run was made on and the run's samples, from where its manifest says they lie.

    `NotComparableError` where other pages lie there now.
    """
    manifest = run.manifest
    suite = load_suite(str(manifest.protocol.get("suite_source") or manifest.identity.suite))
    return suite, samples_of_run(manifest, suite, run.records(run.arms[0]))


def set_up_referee(model: str | None, run: LoadedRun, *, crops: Path) -> RefereeSetup:
    """A float32 referee over the run's own checkpoint; `model` names it, `None` means no referee.

    Runs in another dtype get a tau measured on their own outputs; float32 has the fixed one. Crops of page
    regions are cut into the folder `crops`.
    """
    if model is None:
        return RefereeSetup()
    from gravbench.backends.referee import StepModelReferee, measured_tau, open_step_model, token_gaps
    from gravbench.backends.registry import is_served
    from gravbench.runner.engine import checkpoint_of

    def forced(step_model: StepModel[Any], precision: str, tau: float) -> ForcedPass:
        return ForcedPass(
            precision=precision,
            tau=tau,
            gaps=lambda name, ids: token_gaps(step_model, requests(name), ids),
        )

    identity = run.manifest.identity
    served = is_served(identity.backend)
    backend, dtype = DEFAULT_BACKEND if served else identity.backend_name, identity.dtype
    checkpoint = None if model == backend == "toy" else checkpoint_of(model, backend=backend)
    digest = identity.model_digest
    step_model = open_step_model(backend, checkpoint, dtype="float32", expected_digest=digest)
    requests = _Requests(run, crops)
    referee = StepModelReferee(step_model, requests)
    if dtype == "float32":
        return RefereeSetup(referee=referee, passes=(forced(step_model, "float32", TAU_FLOAT32),))
    device = "cpu" if served else identity.device
    noisy = open_step_model(backend, checkpoint, dtype=dtype, device=device, expected_digest=digest)
    answers = {
        piece.request_id(record.sample_id): piece.token_ids
        for record in run.records(run.arms[0])
        for piece, _ in record.answers
    }
    outputs = dict(list(answers.items())[:NOISE_SAMPLES])
    block = run.manifest.model.get("block_size")
    rows = (block if isinstance(block, int) else DEFAULT_BLOCK) + 1
    tau = measured_tau(noisy, step_model, requests, outputs, window_rows=rows)
    tau = max(tau, TAU_FLOAT32)
    passes = (forced(step_model, "float32", tau), forced(noisy, dtype, tau))
    return RefereeSetup(referee=referee, tau=tau, passes=passes)


def paired_arms(
    base_arm: str | None, own_arm: str | None, runs: Sequence[LoadedRun]
) -> list[tuple[str, str]] | None:
    """The strategies that were paired by hand; `None` where none were."""
    if base_arm is not None and own_arm is not None and len(runs) > 1:
        return [(base_arm, own_arm)]
    if base_arm is None and own_arm is None:
        return None
    raise UsageError(
        "--base-arm and --own-arm pair strategies of two runs; one of them is not enough",
        hint="gravbench compare A B --base-arm ar --own-arm selfspec",
    )


def refuse_run_options(
    paths: Sequence[Path], *, referee: str | None, arms: str | None, forward_cost: Path | None
) -> None:
    """`UsageError` for what a result of `gravbench omnidoc` cannot have: tokens, strategies, times."""
    given = {"--referee": referee, "--base-arm and --own-arm": arms, "--forward-cost": forward_cost}
    for option, value in given.items():
        if value is not None:
            raise UsageError(
                f"{option}: {paths[0]} is a result of gravbench omnidoc: texts and scores alone",
                hint=f"Leave {option} out.",
            )


def refuse_result_options(*, data: Path | None) -> None:
    """`UsageError` for what is of results alone."""
    if data is not None:
        raise UsageError(
            "--data: for results of gravbench omnidoc; a run knows where its pages lie",
            hint="Leave --data out.",
        )


def pages_of_results(run: LoadedRun, data: Path | None) -> tuple[PageSample, ...]:
    """The pages of compared results in the folder `data`; none without one.

    `NotComparableError` where a page is not there, or its annotation is another.
    """
    if data is None:
        return ()
    pages = load_suite("omnidoc16").pages
    assert pages is not None
    found = {page.sample_id: page for page in read_page_folder(pages, data, allow_drift=True).samples}
    for unit in run.units:
        page = found.get(unit.sample_id)
        digest = next(iter(unit.records.values())).input_sha
        if page is None or reference_digest(page.entry) != digest:
            what = "not there" if page is None else "annotated otherwise than when it was scored"
            raise NotComparableError(
                f"--data {data}: {unit.sample_id} is {what}", hint="Name the folder that was scored against."
            )
    return tuple(found[unit.sample_id] for unit in run.units)


def read_forward_costs(path: Path | None) -> dict[int, float] | None:
    """c(Q)/c(1) by row count from `gravbench doctor --forward-cost --json`; `None` without a file."""
    if path is None:
        return None
    try:
        costs = measured_costs(orjson.loads(path.read_bytes()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as fault:
        raise UsageError(
            f"{path}: no forward costs in it: {fault!r}",
            hint="Write it with: gravbench doctor --forward-cost --json > FILE",
        ) from fault
    if len(costs) < 2 or any(rows < 1 or cost <= 0 for rows, cost in costs.items()):
        raise UsageError(f"{path}: forward_cost: {costs}, expected costs above 0 of at least two row counts")
    return costs


class _Requests:
    """Requests by the name of their piece. Where that is a part of an image, it is cut out when asked for."""

    def __init__(self, run: LoadedRun, crops: Path) -> None:
        suite, samples = same_suite_of(run)
        self._suite, self._crops = suite, crops
        by_id = {sample.sample_id: sample for sample in samples}
        self._pieces = {
            piece.request_id(unit.sample_id): (by_id[unit.sample_id], piece)
            for unit in run.units
            for record in unit.records.values()
            for piece in record.pieces
        }

    def __call__(self, name: str) -> Request:
        sample, piece = self._pieces[name]
        place = self._crops / "region.png"
        if self._suite.pages is not None and piece.polygon:
            region = Region(region_id=piece.region_id, label=piece.label, polygon=piece.polygon)
            cut = cut_region(open_page(sample), region, grid=self._suite.pages.crop_grid)
            cut.save(place, format="PNG")
        return Request(
            request_id=name,
            sample_id=name,
            task=piece.task,
            image_path=str(place) if piece.polygon else str(sample.image_path),
            prompt=self._suite.prompts[piece.task],
            max_new_tokens=self._suite.max_new_tokens[piece.task],
        )
