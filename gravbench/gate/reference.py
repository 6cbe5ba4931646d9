"""Reference outputs: what we vouch for, one folder a strategy under `reference_outputs/<suite>/`.

run.json           identity, model, quality and counters in short, sha256 of the files beside it
predictions.jsonl  token ids, stop reason and text of every sample
counters.jsonl     counters and rounds of every sample
scores.jsonl       every score with its counts
tolerances.toml    what this strategy is allowed beyond the policy; kept when blessing again
PROVENANCE.toml    command, commit, environment, date, reason, who

No time is stored: seconds of another day judge nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field, JsonValue

from gravbench.analysis.loaded import RunData
from gravbench.analysis.pieces import Answers, cut_pieces, segments_of
from gravbench.errors import DataError
from gravbench.records import Counters, Rounds, SampleTask, StopReason, Times, Trace
from gravbench.store.files import parse_record, read_records
from gravbench.store.page_schema import PageDetail, StageTimes
from gravbench.store.run_identity import RunIdentity
from gravbench.store.schema import GenError, GenRecord, GenStatus, ScoreRecord, StoredRecord

RUN_FILE = "run.json"
TOLERANCES_FILE = "tolerances.toml"
DATA_FILES = ("predictions.jsonl", "counters.jsonl", "scores.jsonl")

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


class ReferencePrediction(StoredRecord):
    """One line of `predictions.jsonl`."""

    schema_id: Literal["gravbench.prediction/1"] = Field(default="gravbench.prediction/1", alias="schema")
    sample_id: str
    rep: int
    task: SampleTask
    input_sha: str
    prompt_sha: str
    max_new_tokens: int
    status: GenStatus
    error: GenError | None
    stop_reason: StopReason
    loop_flag: bool
    token_ids: tuple[int, ...]
    text: str
    text_sha: str
    page: PageDetail | None = None
    """Regions of a page with their counters, every time in it 0 or absent; `None` for crops."""


class ReferenceCounters(StoredRecord):
    """One line of `counters.jsonl`. Both are `None` for a failed sample, `rounds` where they are hidden."""

    schema_id: Literal["gravbench.counters/2"] = Field(default="gravbench.counters/2", alias="schema")
    sample_id: str
    rep: int
    counters: Counters | None
    rounds: Rounds | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceArm:
    """One strategy's reference, joined by (sample, rep)."""

    folder: Path
    run: ReferenceRun
    predictions: Mapping[Key, ReferencePrediction]
    counters: Mapping[Key, ReferenceCounters]
    scores: Mapping[Key, tuple[ScoreRecord, ...]]

    @property
    def tolerances(self) -> Path | None:
        path = self.folder / TOLERANCES_FILE
        return path if path.is_file() else None

    def answers(self, key: Key) -> Answers:
        """What counts are made of."""
        prediction, counted = self.predictions[key], self.counters[key]
        if counted.counters is None:
            return None
        return cut_pieces(prediction.token_ids, counted.rounds, segments_of(prediction))


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
    p, counted = arm.predictions[key], arm.counters[key]
    trace = (
        Trace(counters=counted.counters, rounds=counted.rounds, times=Times())
        if counted.counters is not None
        else None
    )
    return GenRecord(
        run_id="reference",
        session_id="reference",
        sample_id=p.sample_id,
        arm=arm.run.strategy,
        rep=p.rep,
        slot=0,
        attempt=1,
        task=p.task,
        suite_sha=arm.run.identity.suite_sha,
        input_sha=p.input_sha,
        prompt_sha=p.prompt_sha,
        max_new_tokens=p.max_new_tokens,
        status=p.status,
        error=p.error,
        stop_reason=p.stop_reason,
        loop_flag=p.loop_flag,
        token_ids=p.token_ids,
        text=p.text,
        text_sha=p.text_sha,
        trace=trace,
        page=p.page,
        submit_ns=0,
        done_ns=0,
    )


def without_times(page: PageDetail | None) -> PageDetail | None:
    """A page's detail with stage times 0 and no region times: references hold no clock."""
    if page is None:
        return None
    zero = dict.fromkeys(StageTimes.model_fields, 0)
    regions = tuple(region.model_copy(update={"times": None}) for region in page.regions)
    return page.model_copy(update={"regions": regions, "stages": StageTimes(**zero)})


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
    counters = {(c.sample_id, c.rep): c for c in read_records(folder / DATA_FILES[1], ReferenceCounters)}
    scores: dict[Key, tuple[ScoreRecord, ...]] = {}
    for score in read_records(folder / DATA_FILES[2], ScoreRecord):
        key = (score.sample_id, score.rep)
        scores[key] = (*scores.get(key, ()), score)
    if not predictions or set(predictions) != set(counters) or set(predictions) != set(scores):
        raise DataError(
            f"{folder}: {', '.join(DATA_FILES)} do not hold the same samples",
            hint="Restore them from git, or bless the run again.",
        )
    return ReferenceArm(folder=folder, run=run, predictions=predictions, counters=counters, scores=scores)
