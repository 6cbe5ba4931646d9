"""The run directory: one folder is one run.

manifest.json                      written first, immutable; holds the plan
amendment.json                     only where inputs of failed samples were mended since
state.json                         small, replaced atomically
gen/<shard>.jsonl                  one line per finished (sample, arm, rep)
score/<scorer>-<digest>/all.jsonl  one line per score; may be deleted and rebuilt
predictions/<arm>/<stem>.md        a page's Markdown as official scoring wants to find it; may be rebuilt
events.jsonl                       sessions, warm-up, torn lines, faults (capped)
certificate.json                   derived, only after an audit: each token against its own prefix
summary.json                       derived; may be deleted and rebuilt
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pydantic import JsonValue

from gravbench.errors import DataError, NotComparableError, UsageError
from gravbench.store.files import (
    LineWriter,
    cut_torn_tail,
    make_folder,
    parse_record,
    read_bytes,
    read_records,
    remove_temporaries,
    write_atomic,
)
from gravbench.store.schema import (
    Amendment,
    GenRecord,
    Manifest,
    PlanEntry,
    ScoreRecord,
    State,
    canonical_json,
    record_bytes,
    sha256_of,
)

MAX_EVENTS = 10_000
SHARD = "000.jsonl"
DAMAGED_GENERATION = (
    "Changed by hand or damaged. Keep a copy of the file, delete the line, and repeat the command that "
    "started the run: only the samples of deleted lines are decoded again."
)
DAMAGED_SCORE = "Scores are derived: delete this file, and `gravbench score` makes it again from gen/."
_OWN_FILES = {".lock", "lock.json"}

PairKey = tuple[str, int]
"""(sample_id, rep): what both arms of one pair share."""


class RunDirectory:
    """Paths and records of one run folder. Opening it changes nothing; `repair` and the writers do."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def manifest_file(self) -> Path:
        return self.path / "manifest.json"

    @property
    def summary_file(self) -> Path:
        return self.path / "summary.json"

    def exists(self) -> bool:
        """Whether a manifest lies here."""
        return self.manifest_file.is_file()

    def holds_foreign_files(self) -> bool:
        """Whether the folder has files, but no run: it is not ours to write into."""
        if self.exists() or not self.path.is_dir():
            return False
        names = {entry.name for entry in self.path.iterdir()}
        return any(name not in _OWN_FILES and not name.endswith(".tmp") for name in names)

    def create(self, manifest: Manifest) -> None:
        """Write the manifest, then the folder for records."""
        write_atomic(self.manifest_file, record_bytes(manifest))

    def manifest(self) -> Manifest:
        """The manifest; `UsageError` when no run lies here, `DataError` when it is not of the schema."""
        if not self.exists():
            raise UsageError(
                f"{self.path}: no run here (manifest.json is missing)",
                hint="Give the folder that `gravbench run` printed, or the one given to --out.",
            )
        written = parse_record(read_bytes(self.manifest_file), Manifest, where=str(self.manifest_file))
        amendment = self.amendment()
        return written if amendment is None else amended(written, amendment)

    def amendment(self) -> Amendment | None:
        """Which inputs were mended since the manifest was written; `None` where nothing was."""
        path = self.path / "amendment.json"
        return parse_record(read_bytes(path), Amendment, where=str(path)) if path.is_file() else None

    def amend(self, amendment: Amendment) -> None:
        write_atomic(self.path / "amendment.json", record_bytes(amendment))

    def state(self) -> State | None:
        """The last state written; `None` before the first, or when it cannot be read (it is derived)."""
        try:
            return State.model_validate_json((self.path / "state.json").read_bytes())
        except (OSError, ValueError):
            return None

    def write_state(self, state: State) -> None:
        write_atomic(self.path / "state.json", record_bytes(state))

    def write_summary(self, summary: bytes) -> None:
        write_atomic(self.summary_file, summary)

    def repair(self) -> list[str]:
        """What a kill leaves: cut torn last lines of all shards (kept as `.torn`), remove half-written files.

        Names the files that had a torn line. For the holder of the lock alone.
        """
        remove_temporaries(self.path)
        shards = [*sorted(self.path.glob("gen/*.jsonl")), *sorted(self.path.glob("score/*/*.jsonl"))]
        events = self.path / "events.jsonl"
        return [str(p.relative_to(self.path)) for p in [*shards, events] if p.is_file() and cut_torn_tail(p)]

    def generations(self) -> list[GenRecord]:
        """All generation records, all attempts, in the order they were written."""
        return [
            record
            for path in sorted(self.path.glob("gen/*.jsonl"))
            for record in read_records(path, GenRecord, hint=DAMAGED_GENERATION)
        ]

    def gen_writer(self) -> LineWriter:
        return LineWriter(_in_folder(self.path / "gen") / SHARD)

    def scores(self, scorer: str) -> list[ScoreRecord]:
        """Stored scores of one scorer id; empty when it has not run."""
        path = self.path / "score" / scorer / "all.jsonl"
        return read_records(path, ScoreRecord, hint=DAMAGED_SCORE) if path.is_file() else []

    def write_scores(self, scorer: str, scores: Sequence[ScoreRecord]) -> None:
        """Replace the scores of one scorer id: derived data, all or nothing."""
        folder = _in_folder(self.path / "score" / scorer)
        write_atomic(folder / "all.jsonl", b"".join(record_bytes(score) + b"\n" for score in scores))


def amended(manifest: Manifest, amendment: Amendment) -> Manifest:
    """The manifest as it would have been written for the mended inputs."""
    identity = manifest.identity.model_copy(update={"samples_sha": amendment.samples_sha})
    return manifest.model_copy(
        update={
            "identity": identity,
            "identity_sha": sha256_of(identity.document()),
            "protocol": {**manifest.protocol, "data": amendment.data},
        }
    )


class EventLog:
    """`events.jsonl`: capped, not synchronised; losing its tail loses no result."""

    def __init__(self, run: RunDirectory) -> None:
        self._writer = LineWriter(run.path / "events.jsonl", durable=False)
        self._count = 0

    def add(self, kind: str, details: Mapping[str, JsonValue], *, unix_time: float) -> None:
        self._count += 1
        if self._count < MAX_EVENTS:
            self._writer.append(canonical_json({"kind": kind, "unix_time": unix_time, **details}))
        elif self._count == MAX_EVENTS:
            self._writer.append(canonical_json({"kind": "capped", "unix_time": unix_time}))

    def close(self) -> None:
        self._writer.close()


def complete_pairs(
    records: Iterable[GenRecord], plan: Sequence[PlanEntry]
) -> dict[PairKey, dict[str, GenRecord]]:
    """For each (sample, rep) the arms of its last complete attempt; pairs without one are absent.

    An attempt is complete when every arm of the plan has a line in it. Later lines win.
    """
    wanted: dict[PairKey, set[str]] = {}
    for entry in plan:
        wanted.setdefault((entry.sample_id, entry.rep), set()).add(entry.arm)
    attempts: dict[PairKey, dict[int, dict[str, GenRecord]]] = {}
    for record in records:
        key = (record.sample_id, record.rep)
        if key not in wanted or record.arm not in wanted[key]:
            raise DataError(
                f"generation of sample {record.sample_id!r}, arm {record.arm!r}, rep {record.rep} "
                "is not in the plan of manifest.json",
                hint="The folder mixes two runs; start again with --fresh.",
            )
        attempts.setdefault(key, {}).setdefault(record.attempt, {})[record.arm] = record
    pairs: dict[PairKey, dict[str, GenRecord]] = {}
    for key, by_attempt in attempts.items():
        full = [attempt for attempt, arms in by_attempt.items() if set(arms) == wanted[key]]
        if full:
            pairs[key] = by_attempt[max(full)]
    return pairs


def is_failed(pair: Mapping[str, GenRecord]) -> bool:
    """Whether any arm of a pair has no usable answer."""
    return any(record.status != "ok" for record in pair.values())


def next_attempts(records: Iterable[GenRecord]) -> dict[PairKey, int]:
    """The highest attempt seen for each (sample, rep)."""
    highest: dict[PairKey, int] = {}
    for record in records:
        key = (record.sample_id, record.rep)
        highest[key] = max(highest.get(key, 0), record.attempt)
    return highest


def finished_pairs(run: RunDirectory, manifest: Manifest) -> dict[PairKey, dict[str, GenRecord]]:
    """All pairs of a run that ended; `NotComparableError` (exit 3) while some are missing."""
    pairs = complete_pairs(run.generations(), manifest.plan)
    missing = len({(e.sample_id, e.rep) for e in manifest.plan}) - len(pairs)
    if missing:
        raise NotComparableError(
            f"{run.path}: incomplete, {missing} of {missing + len(pairs)} samples are not finished",
            hint=f"Repeat the command that started the run to finish it: {manifest.command}",
        )
    return pairs


def runs_below(root: Path) -> list[RunDirectory]:
    """Run folders directly under `root`, newest name first (names begin with the UTC time)."""
    if not root.is_dir():
        return []
    folders = sorted((p for p in root.iterdir() if p.is_dir()), key=lambda p: p.name, reverse=True)
    return [run for run in map(RunDirectory, folders) if run.exists()]


def _in_folder(path: Path) -> Path:
    make_folder(path)
    return path


def predictions_folder(run_dir: Path, arm: str) -> Path:
    """Folder of one strategy's Markdown files."""
    return run_dir / "predictions" / arm


def write_markdown(run_dir: Path, record: GenRecord) -> None:
    """Write one page's Markdown; a failed page gets an empty file, which scores as it should.

    Official scoring reads pages alone: of a crop nothing is written.
    """
    if record.task != "page":
        return
    folder = predictions_folder(run_dir, record.arm)
    make_folder(folder)
    write_atomic(folder / f"{record.sample_id}.md", record.text.encode("utf-8"))


def write_missing_markdown(run_dir: Path, records: Iterable[GenRecord]) -> None:
    """Write the files that are absent or not what the record says."""
    for record in records:
        path = predictions_folder(run_dir, record.arm) / f"{record.sample_id}.md"
        if not path.is_file() or path.read_bytes() != record.text.encode("utf-8"):
            write_markdown(run_dir, record)
