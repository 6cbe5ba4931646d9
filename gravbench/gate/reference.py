"""Reference outputs: what we vouch for, one folder a strategy under `reference_outputs/<suite>/`.

run.json           identity, model, quality and counters in short, sha256 of the files beside it
predictions.jsonl  every sample's text, and of its pieces token ids, stop reason, counters and rounds
scores.jsonl       every score with its counts
tolerances.toml    what this strategy is allowed beyond the policy; kept when blessing again
PROVENANCE.toml    command, commit, environment, date, reason, who

No time is stored: seconds of another day judge nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, JsonValue

from gravbench.analysis.comparison import identity_differences, sample_problem
from gravbench.analysis.loaded import LoadedRun, RunData, Unit
from gravbench.errors import DataError
from gravbench.gate.policy import NEW_WEIGHTS, Policy
from gravbench.records import untimed
from gravbench.store.files import parse_record, read_records
from gravbench.store.schema import GenRecord, RunIdentity, SampleAnswer, ScoreRecord, StageTimes, StoredRecord

RUN_FILE = "run.json"
TOLERANCES_FILE = "tolerances.toml"
DATA_FILES = ("predictions.jsonl", "scores.jsonl")

Key = tuple[str, int]
"""(sample_id, rep)."""


class ReferenceRun(StoredRecord):
    """`run.json` of one strategy."""

    schema_id: Literal["gravbench.reference/1"] = Field(default="gravbench.reference/1", alias="schema")
    suite: str
    strategy: str
    n_samples: int
    identity: RunIdentity
    """Without the strategies: each has a reference of its own."""
    model: dict[str, JsonValue]
    quality: dict[str, float]
    counters: dict[str, float]
    files: dict[str, str]
    data: RunData | None = None
    """Which copy of the page data it was made on; absent without pages, and in older references."""


class ReferencePrediction(SampleAnswer):
    """One line of `predictions.jsonl`: an answer in which every time is 0 or absent."""

    schema_id: Literal["gravbench.prediction/2"] = Field(default="gravbench.prediction/2", alias="schema")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceArm:
    """One strategy's reference, joined by (sample, rep)."""

    folder: Path
    run: ReferenceRun
    predictions: Mapping[Key, ReferencePrediction]
    scores: Mapping[Key, tuple[ScoreRecord, ...]]

    @property
    def tolerances(self) -> Path | None:
        path = self.folder / TOLERANCES_FILE
        return path if path.is_file() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """All strategies of one suite, from one run: their identities agree but for the strategy."""

    folder: Path
    suite: str
    arms: Mapping[str, ReferenceArm]

    @property
    def data(self) -> RunData | None:
        """The page data all strategies were run on."""
        return next(iter(self.arms.values())).run.data


def arm_folder(strategy: str) -> str:
    """Folder name of a strategy string; `:` is no good in file names everywhere."""
    return strategy.replace(":", "@")


def suites_in(folder: Path) -> list[str]:
    """Suites whose reference outputs lie in `folder/<suite>`, as `bless --to` and the package keep them."""
    return sorted({path.parent.parent.name for path in folder.glob(f"*/*/{RUN_FILE}")})


def load_reference(folder: Path) -> Reference:
    """Read and check `reference_outputs/<suite>`; anything missing, edited or mixed is a `DataError`."""
    arms: dict[str, ReferenceArm] = {}
    for path in sorted(folder.glob(f"*/{RUN_FILE}")) if folder.is_dir() else ():
        arm = _load_arm(path.parent)
        arms[arm.run.strategy] = arm
    if not arms and (held := suites_in(folder)):
        raise DataError(
            f"{folder}: the reference outputs here are one folder down, by suite: {', '.join(held)}",
            hint=f"Name one of them, for example --reference {folder / held[0]}",
        )
    if not arms:
        raise DataError(
            f"{folder}: no reference outputs here",
            hint='Write them from a run you vouch for: gravbench bless RUN --reason "..."',
        )
    first = next(iter(arms.values()))
    for arm in arms.values():
        same = (arm.run.identity, arm.run.data) == (first.run.identity, first.run.data)
        if not same or set(arm.predictions) != set(first.predictions):
            raise DataError(
                f"{folder}: {arm.folder.name} and {first.folder.name} come from different runs",
                hint="Bless one run with all its strategies, and remove folders of strategies given up.",
            )
    return Reference(folder=folder, suite=first.run.suite, arms=arms)


def as_generation(arm: ReferenceArm, key: Key) -> GenRecord:
    """A stored prediction as the record a run would hold, without times."""
    return GenRecord(
        **_answer_of(arm.predictions[key]),
        run_id="reference",
        session_id="reference",
        arm=arm.run.strategy,
        slot=0,
        attempt=1,
        suite_sha=arm.run.identity.suite_sha,
        submit_ns=0,
        done_ns=0,
    )


def as_prediction(record: GenRecord) -> ReferencePrediction:
    """A record as it is stored: with stage times 0 and no other time, since references hold no clock."""
    zero = StageTimes(**dict.fromkeys(StageTimes.model_fields, 0))
    return ReferencePrediction(
        **_answer_of(record)
        | {
            "pieces": tuple(map(untimed, record.pieces)),
            "assembly": record.assembly and record.assembly.model_copy(update={"stages": zero}),
        }
    )


def _answer_of(answer: SampleAnswer) -> dict[str, Any]:
    return {name: getattr(answer, name) for name in SampleAnswer.model_fields if name != "schema_id"}


def file_sha(path: Path) -> str:
    """sha256 of a file's bytes, in hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _load_arm(folder: Path) -> ReferenceArm:
    run_file = folder / RUN_FILE
    run = parse_record(run_file.read_bytes(), ReferenceRun, where=str(run_file))
    for name in DATA_FILES:
        path = folder / name
        if not path.is_file():
            raise DataError(f"{path}: missing", hint="Restore it from git, or bless the run again.")
        if file_sha(path) != run.files.get(name):
            raise DataError(
                f"{path}: its sha256 is not the one in {RUN_FILE}: cut off or edited by hand",
                hint="Restore it from git, or bless the run again.",
            )
    predictions = {(p.sample_id, p.rep): p for p in read_records(folder / DATA_FILES[0], ReferencePrediction)}
    scores: dict[Key, tuple[ScoreRecord, ...]] = {}
    for score in read_records(folder / DATA_FILES[1], ScoreRecord):
        key = (score.sample_id, score.rep)
        scores[key] = (*scores.get(key, ()), score)
    if not predictions or set(predictions) != set(scores):
        raise DataError(
            f"{folder}: {', '.join(DATA_FILES)} do not hold the same samples",
            hint="Restore them from git, or bless the run again.",
        )
    return ReferenceArm(folder=folder, run=run, predictions=predictions, scores=scores)


def candidate_problems(run: LoadedRun, reference: Reference, policies: Mapping[str, Policy]) -> list[str]:
    """Why the run does not answer the reference's question; empty when it does."""
    problems: list[str] = []
    for name, arm in reference.arms.items():
        for d in identity_differences(
            arm.run.identity.document(), run.manifest.identity.document(), policies[name].must_match
        ):
            problem = f"{d.field} is {d.own}, the reference has {d.base}"
            if d.field == "model_digest":
                problem += f": other weights are judged by --policy {NEW_WEIGHTS}"
            if problem not in problems:
                problems.append(problem)
    own_arms, reference_arms = frozenset(run.arms), frozenset(reference.arms)
    for what, arms in (("missing", reference_arms - own_arms), ("extra", own_arms - reference_arms)):
        problems += [f"strategy {arm!r} {what}" for arm in sorted(arms)]
    keys = {(unit.sample_id, unit.rep) for unit in run.units}
    first = next(iter(reference.arms.values()))
    if keys != set(first.predictions):
        names = [frozenset(sample for sample, _ in side) for side in (first.predictions, keys)]
        problems.append(sample_problem(names[0], names[1]) or "other repetitions of the same samples")
    else:
        problems += _input_problems(run.units, first)
    return problems


def _input_problems(units: Sequence[Unit], reference: ReferenceArm) -> list[str]:
    """Samples whose image, prompt or budget is not the reference's."""
    changed: dict[str, list[str]] = {}
    for unit in units:
        expected = reference.predictions[unit.sample_id, unit.rep]
        record = next(iter(unit.records.values()))
        for field in ("input_sha", "prompt_sha", "max_new_tokens"):
            if getattr(record, field) != getattr(expected, field):
                changed.setdefault(field, []).append(unit.sample_id)
    return [f"{field} of {len(ids)} samples differs, first {ids[0]}" for field, ids in changed.items()]
