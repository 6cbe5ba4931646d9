"""`gravbench run` and `gravbench score`, each as one readable path."""

from __future__ import annotations

import shlex
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from gravbench.analysis.loaded import facts_of
from gravbench.analysis.summary import Summary, build_summary, summary_json
from gravbench.arms import batch_of, parse_arm
from gravbench.backends.registry import canonical_backend, is_served
from gravbench.errors import NotComparableError
from gravbench.options import RunOptions, command_of
from gravbench.pages.assembly import ASSEMBLER
from gravbench.protocols import Backend, BackendInfo
from gravbench.provenance import ResidentMemory, capture
from gravbench.records import TASKS, SampleTask
from gravbench.resources import __version__
from gravbench.runner.engine import as_arms, check_settings, check_texts, lossy_arms, supplied_files
from gravbench.runner.folder import (
    Continuation,
    claim_named,
    claim_under,
    digest_of_inputs,
    open_named,
    run_name,
    writable_root,
)
from gravbench.runner.plan import CropReader, SampleReader, order_plan
from gravbench.runner.samples import (
    OpenLayout,
    PageSetup,
    data_document,
    open_named_layout,
    page_setup,
    references_sha,
)
from gravbench.runner.session import WARM_UP_TRIES, Clocks, MemoryWatch, Progress, Session
from gravbench.scorers.contract import Sample
from gravbench.scorers.scoring import ScorerSet, open_scorers
from gravbench.store.files import RunLock
from gravbench.store.rundir import PairKey, RunDirectory, finished_pairs, write_missing_markdown
from gravbench.store.schema import GenRecord, Manifest, RunIdentity, ScoreRecord, sha256_of
from gravbench.suites.data import take
from gravbench.suites.manifest import suite_digest

if TYPE_CHECKING:
    from gravbench.suites.data import OpenedSuite
    from gravbench.suites.manifest import Suite

OpenBackend = Callable[[RunOptions, "Suite"], Backend]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A finished run: its folder and summary, and whether more samples failed than --max-errors allows."""

    run_dir: Path
    summary: Summary
    resumed: bool
    too_many_errors: bool


def run(
    options: RunOptions,
    suite: Suite,
    samples: Sequence[Sample],
    *,
    open_backend: OpenBackend,
    progress: Progress,
    environ: Mapping[str, str],
    clocks: Clocks | None = None,
    opened: OpenedSuite | None = None,
    open_layout: OpenLayout = open_named_layout,
) -> Outcome:
    """Run (or continue) the plan of `options` and leave a complete run folder behind.

    Folder and lock come before the model, so that a bad folder fails in a moment. `opened` says which copy of
    the page data the samples come from.
    """
    clocks, options = clocks or Clocks(), as_arms(options)
    chosen = take(samples, options.limit, stratify=options.stratify, seed=options.seed)
    environment = capture(environ)  # asks git: no child process may be alive while the lock is held
    with ExitStack() as stack:
        named = stack.enter_context(claim_named(options.out, fresh=options.fresh)) if options.out else None
        if named is None:
            writable_root(options)
        backend = stack.enter_context(closing(open_backend(options, suite)))
        backend.check(options.strategies)
        info = backend.describe()
        cautions = (
            *check_settings(options.strategies, info, environment),
            *check_texts(
                options.strategies,
                {sample.sample_id for sample in chosen},
                {sample.sample_id for sample in (opened.samples if opened else samples)},
            ),
        )
        pages = page_setup(options, suite, chosen, open_layout=open_layout)
        if pages is not None:
            stack.enter_context(closing(pages.layout))
        manifest = build_manifest(
            options,
            suite,
            chosen,
            info.model_copy(update={"warnings": (*info.warnings, *cautions)}),
            environment=environment,
            now=datetime.now(UTC),
            pages=pages,
            data=data_document(opened) if opened is not None else None,
        )
        inputs = {sample.sample_id: sample.image_sha256 for sample in chosen}
        again = Continuation(inputs=inputs, retry_failed=options.retry_failed)
        claim = (
            open_named(*named, manifest, again)
            if named is not None
            else stack.enter_context(claim_under(options.runs_root, manifest, again, fresh=options.fresh))
        )
        session = Session(
            claim=claim,
            samples={sample.sample_id: sample for sample in chosen},
            readers=_readers(suite, backend, pages, run_folder=claim.run.path, clock=clocks.monotonic_ns),
            settle=backend.settle,
            session_id=uuid.uuid4().hex,
            progress=progress,
            clocks=clocks,
            memory=MemoryWatch(
                process=None if is_served(options.backend) else ResidentMemory(),
                device=backend.take_peak_bytes,
            ),
            retry_failed=options.retry_failed,
        )
        pairs = session.run()
        scorers = open_scorers(suite.scorers)
        summary = write_results(claim.run, claim.manifest, pairs, chosen, scorers=scorers, reuse=True)
        session.finish()
    return Outcome(
        run_dir=claim.run.path,
        summary=summary,
        resumed=claim.resumed,
        too_many_errors=options.max_errors.exceeded(summary.failed_samples, summary.n_samples),
    )


def _readers(
    suite: Suite, backend: Backend, pages: PageSetup | None, *, run_folder: Path, clock: Callable[[], int]
) -> dict[SampleTask, SampleReader]:
    """Who reads the samples of each task."""
    crops = CropReader(suite=suite, backend=backend)
    readers: dict[SampleTask, SampleReader] = dict.fromkeys(TASKS, crops)
    if pages is not None:
        readers["page"] = pages.reader(suite, backend, run_folder=run_folder, clock=clock)
    return readers


def rescore(run_dir: Path, suite: Suite, samples: Sequence[Sample], *, reuse: bool = False) -> Summary:
    """Score a finished run again from its records and rewrite its summary; no model is touched.

    `reuse` takes stored scores of equal content.
    """
    run_folder = RunDirectory(run_dir)
    manifest = run_folder.manifest()
    recorded = manifest.identity.suite_sha
    digest = suite_digest(suite)
    if digest != recorded:
        raise NotComparableError(
            f"suite {suite.name}: digest {digest[:12]}, the run was made on {recorded[:12]}",
            hint="Score with the version of the suite the run was made on.",
        )
    with RunLock(run_dir):
        pairs = finished_pairs(run_folder, manifest)
        scorers = open_scorers(suite.scorers)
        return write_results(run_folder, manifest, pairs, samples, scorers=scorers, reuse=reuse)


def write_results(
    run_folder: RunDirectory,
    manifest: Manifest,
    pairs: Mapping[PairKey, Mapping[str, GenRecord]],
    samples: Sequence[Sample],
    *,
    scorers: ScorerSet,
    reuse: bool,
) -> Summary:
    """Score the pairs, write `score/` and `summary.json`. `reuse` takes stored scores of equal content."""
    asked = {sample_id for sample_id, _ in pairs}
    samples = [sample for sample in samples if sample.sample_id in asked]
    known: Sequence[ScoreRecord] = run_folder.scores(scorers.name) if reuse else ()
    ordered = [pairs[key] for key in sorted(pairs)]
    records = [record for arms in ordered for record in arms.values()]
    write_missing_markdown(run_folder.path, records)
    scores = scorers.score(records, samples, known=known)
    run_folder.write_scores(scorers.name, scores)
    summary = build_summary(
        manifest,
        ordered,
        scores,
        metrics=scorers.metrics,
        quality_of=scorers.aggregate,
        run_dir=str(run_folder.path),
        version=__version__,
        attributes={sample.sample_id: sample.attributes for sample in samples},
        facts=facts_of(samples),
        remarks=scorers.remarks(scores, samples, seed=manifest.identity.seed),
    )
    run_folder.write_summary(summary_json(summary) + b"\n")
    return summary


def build_manifest(
    options: RunOptions,
    suite: Suite,
    samples: Sequence[Sample],
    info: BackendInfo,
    *,
    environment: dict[str, JsonValue],
    now: datetime,
    pages: PageSetup | None = None,
    data: dict[str, JsonValue] | None = None,
) -> Manifest:
    """The immutable plan. `identity` holds exactly the fields that two runs must share to be one run."""
    identity = build_identity(options, suite, samples, info, pages=pages)
    identity_sha = sha256_of(identity.document())
    return Manifest(
        run_id=run_name(suite.name, model_digest=info.model_digest, identity_sha=identity_sha, now=now),
        created_utc=now.isoformat(timespec="seconds"),
        argv=tuple(shlex.split(command_of(options.but(fresh=False, retry_failed=False)))),
        identity=identity,
        identity_sha=identity_sha,
        plan=order_plan(
            samples, options.strategies, seed=options.seed, repeats=options.repeats, shard=options.shard
        ),
        model=info.model_dump(mode="json"),
        environment=environment,
        protocol={
            "suite_source": options.suite if options.suite == suite.name else suite.manifest_path,
            "interleave": "pairs, ABBA, seeded",
            "warm_up": f"one request per task and arm, at most {WARM_UP_TRIES} tries"
            + (", then a group per arm with batches" if max(map(batch_of, options.strategies)) > 1 else ""),
            "reps": options.repeats,
            "concurrency": "batch size of the arm" if is_served(options.backend) else 1,
            **({"served": True} if is_served(options.backend) else {}),
            "temperature": "by arm" if any(parse_arm(arm).sampling for arm in options.strategies) else 0,
            "data": data,
            "peak_memory": "not measured: the model is in a server"
            if is_served(options.backend)
            else ResidentMemory().described,
            **({"lossy": list(lossy)} if (lossy := lossy_arms(options.strategies)) else {}),
        },
    )


def suite_fields(suite: Suite, samples: Sequence[Sample]) -> dict[str, Any]:
    """The part of an identity that a suite and its samples decide, whoever answers."""
    return {
        "gravbench": __version__,
        "suite": suite.name,
        "suite_version": suite.version,
        "suite_sha": suite_digest(suite),
        "n_samples": len(samples),
        "samples_sha": digest_of_inputs({sample.sample_id: sample.image_sha256 for sample in samples}),
        "references_sha": references_sha(samples) if suite.kind == "page-crops" else None,
        "prompts": suite.prompts,
        "max_new_tokens": suite.max_new_tokens,
        "scorer": "+".join(suite.scorers),
    }


def build_identity(
    options: RunOptions,
    suite: Suite,
    samples: Sequence[Sample],
    info: BackendInfo,
    *,
    pages: PageSetup | None = None,
) -> RunIdentity:
    """What two runs must share to be one run."""
    return RunIdentity(
        **suite_fields(suite, samples),
        strategies=options.strategies,
        texts_sha=supplied_files(options.strategies),
        repeats=options.repeats,
        shard=options.shard,
        seed=options.seed,
        limit=options.limit,
        stratify=options.stratify,
        where=options.where,
        pages=options.pages,
        backend=canonical_backend(options.backend),
        engine=info.engine,
        model_digest=info.model_digest,
        device=info.device,
        dtype=info.dtype,
        threads=options.threads,
        assembler=ASSEMBLER if pages else None,
        layout=pages.layout.describe() if pages else None,
        crop_grid=pages.crop_grid if pages else None,
    )
