"""A suite, a backend and a clock small enough to know every number by hand. No torch, no files."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gravbench
from gravbench.arms import is_ar
from gravbench.options import RunOptions
from gravbench.protocols import BackendInfo
from gravbench.records import (
    TASKS,
    Counters,
    DecodeConfig,
    Generation,
    Piece,
    Request,
    Rounds,
    Task,
    Times,
    Trace,
)
from gravbench.runner.export import clockless_lines
from gravbench.runner.run import Outcome, run
from gravbench.runner.session import Progress
from gravbench.store.rundir import RunDirectory, finished_pairs
from gravbench.store.schema import GenRecord, RunIdentity, sha256_text
from gravbench.suites.manifest import Suite
from gravbench.suites.samples import Sample

AR_STEP_NS = 1_000
ROUND_NS = 2_000
PREFILL_NS = 5_000


def child_environment() -> dict[str, str]:
    """Environment in which a child process imports this same gravbench, installed or not."""
    here = str(Path(gravbench.__file__).resolve().parent.parent)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH"))))}


def fake_suite(*, version: int = 1) -> Suite:
    """A suite that was never on disk."""
    return Suite(
        name="fake",
        version=version,
        description="for tests",
        kind="crops",
        data="data",
        annotation_sha256="0" * 64,
        prompts=dict.fromkeys(TASKS, "Read:"),
        max_new_tokens=dict.fromkeys(TASKS, 64),
        scorer="crops",
        manifest_path="fake.toml",
    )


def fake_samples(count: int) -> tuple[Sample, ...]:
    """`count` samples, tasks in turn; the reference is what `FakeBackend` says, or a table around it."""
    samples = []
    for index in range(count):
        task = TASKS[index % len(TASKS)]
        sample_id = f"{task}-{index:03d}"
        samples.append(
            Sample(
                sample_id=sample_id,
                task=task,
                image_path="none.png",
                image_sha256="0" * 64,
                reference=spoken(sample_id, task),
                attributes={},
            )
        )
    return tuple(sorted(samples, key=lambda sample: sample.sample_id))


def spoken(sample_id: str, task: Task) -> str:
    """The text the fake model reads from a sample: 5 to 36 characters, or a table with one such cell."""
    digest = hashlib.sha256(sample_id.encode()).hexdigest()
    text = digest[: 5 + int(digest[0], 16) * 2]
    return f"<table><tr><td>{text}</td></tr></table>" if task == "table" else text


def rounds_of(
    offered: Sequence[int], accepted: Sequence[int], committed: Sequence[int], *, seeds: int | None = None
) -> Rounds:
    """Rounds of draft and verify that a seed opens, or of one verify where nothing is offered."""
    drafted = [int(n > 0) for n in offered]
    opened = drafted if seeds is None else [seeds] * len(drafted)
    return Rounds(
        offered=tuple(offered),
        accepted=tuple(accepted),
        committed=tuple(committed),
        seeds=tuple(opened),
        extra=tuple(1 + n for n in opened),
        forwards={
            "verify": (1,) * len(drafted),
            **({"draft": tuple(drafted)} if any(drafted) else {}),
        },
    )


def trace_of(*, tokens_out: int, block: int, accepted: int, image_ns: int = 0) -> Trace:
    """AR (block 0) or draft-verify rounds that accept `accepted` drafts and commit two more."""
    left = tokens_out - 1
    offers, accepts, commits = [], [], []
    while left > 0:
        kept = min(accepted, left) if block else 0
        committed = min(kept + (2 if block else 1), left)
        offers.append(block)
        accepts.append(kept)
        commits.append(committed)
        left -= committed
    rounds = len(commits)
    drafts = rounds if block else 0
    decode_ns = rounds * (ROUND_NS if block else AR_STEP_NS)
    return Trace(
        counters=Counters(
            tokens_out=tokens_out,
            rounds=rounds,
            fwd_prefill=1,
            fwd_draft=drafts,
            fwd_verify=rounds,
            draft_offered=sum(offers),
            draft_accepted=sum(accepts),
        ),
        rounds=rounds_of(offers, accepts, commits),
        times=Times(
            image_ns=image_ns,
            prefill_ns=PREFILL_NS,
            decode_ns=decode_ns,
            total_ns=image_ns + PREFILL_NS + decode_ns,
        ),
    )


@dataclass
class FakeBackend:
    """Says `spoken(sample)` in both arms. `failing` samples come back as errors; `broken` ones raise."""

    failing: frozenset[str] = frozenset()
    broken: frozenset[str] = frozenset()
    accepted: int = 3
    block: int = 8
    sleep_s: float = 0.0
    digest: str = "m" * 64
    raises: BaseException | None = None
    raise_at: int = -1
    different: frozenset[str] = frozenset()
    calls: list[tuple[str, str]] = field(default_factory=list)
    batches: list[tuple[str, ...]] = field(default_factory=list)
    closed: bool = False
    device_peaks: Iterator[int] = field(default_factory=lambda: iter(()))

    def describe(self) -> BackendInfo:
        return BackendInfo(
            name="fake",
            model="fake",
            model_digest=self.digest,
            engine="fake",
            device="cpu",
            dtype="float32",
            threads=1,
            eos_token_ids=(0,),
            mask_token_id=1,
            block_size=self.block,
        )

    def check(self, strategies: Sequence[str]) -> None:
        """Runs everything."""

    def generate(self, request: Request, decode: DecodeConfig) -> Generation:
        self.calls.append((request.sample_id, decode.strategy))
        if self.raises is not None and len(self.calls) == self.raise_at:
            raise self.raises
        if request.sample_id in self.broken:
            raise RuntimeError("defect in the engine")
        if request.sample_id in self.failing:
            return Generation(
                request_id=request.request_id,
                text="",
                token_ids=(),
                stop_reason="error",
                error="ImageError: does not decode",
            )
        time.sleep(self.sleep_s)
        text = spoken(request.sample_id, request.task)
        if request.sample_id in self.different and not is_ar(decode.strategy):
            text = text[:-1] + "?"
        ids = (*(ord(character) for character in text[: request.max_new_tokens - 1]), 0)
        block = 0 if is_ar(decode.strategy) else self.block
        return Generation(
            request_id=request.request_id,
            text=text,
            token_ids=ids,
            stop_reason="eos",
            trace=trace_of(tokens_out=len(ids), block=block, accepted=self.accepted),
        )

    def generate_batch(self, requests: Sequence[Request], decode: DecodeConfig) -> list[Generation]:
        self.batches.append(tuple(request.sample_id for request in requests))
        return [self.generate(request, decode) for request in requests]

    def settle(self) -> None:
        """Nothing to do between requests."""

    def take_peak_bytes(self) -> int | None:
        return next(self.device_peaks, None)

    def close(self) -> None:
        self.closed = True


@dataclass
class QuietProgress:
    """Remembers what it was told."""

    done: int = 0
    total: int = 0
    notes: list[str] = field(default_factory=list)

    def start(self, *, done: int, total: int) -> None:
        self.done, self.total = done, total

    def advance(self) -> None:
        self.done += 1

    def note(self, message: str) -> None:
        self.notes.append(message)

    def stop(self) -> None: ...


def run_fake(
    out: Path | None,
    *,
    backend: FakeBackend | None = None,
    samples: int = 6,
    progress: Progress | None = None,
    suite: Suite | None = None,
    **options: object,
) -> Outcome:
    """`runner.run` over the fakes."""
    chosen = backend or FakeBackend()
    return run(
        RunOptions(suite="fake", out=out, **options),  # type: ignore[arg-type]
        suite or fake_suite(),
        fake_samples(samples),
        open_backend=lambda _options, _suite: chosen,
        progress=progress or QuietProgress(),
        environ={},
    )


def clockless(folder: Path) -> bytes:
    """What `gravbench export --clockless` writes of a finished run."""
    run = RunDirectory(folder)
    manifest = run.manifest()
    scores = run.scores(manifest.identity.scorer)
    return b"".join(clockless_lines(manifest, finished_pairs(run, manifest), scores))


def crop_piece(
    token_ids: tuple[int, ...],
    trace: Trace | None,
    *,
    text: str = "",
    task: Task = "text",
    region_id: str = "",
) -> Piece:
    """The one piece of a crop, or a region of a page."""
    return Piece(
        region_id=region_id,
        label=task,
        task=task,
        text=text,
        token_ids=token_ids,
        stop_reason="eos",
        loop_flag=False,
        trace=trace,
    )


def with_trace(record: GenRecord, trace: Trace, **changes: Any) -> GenRecord:
    """A crop's record with another trace, and other fields of its own."""
    piece = record.pieces[0].model_copy(update={"trace": trace})
    return GenRecord.model_validate({**record.model_dump(), "pieces": (piece,), **changes})


def with_times(record: GenRecord, **times: float | None) -> GenRecord:
    """A crop's record with other times."""
    trace = record.pieces[0].trace
    assert trace is not None
    return with_trace(record, trace.model_copy(update={"times": trace.times.model_copy(update=times)}))


def with_piece(line: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A crop's line of `gen/` with other fields of its piece."""
    (piece,) = line["pieces"]
    return {**line, "pieces": [{**piece, **changes}]}


def gen_record(
    *,
    sample_id: str = "text-000",
    arm: str = "ar",
    text: str = "ab",
    token_ids: tuple[int, ...] = (97, 98, 0),
    block: int = 0,
    accepted: int = 0,
    attempt: int = 1,
    rep: int = 0,
    task: Task = "text",
) -> GenRecord:
    """An ok record whose counters follow from its token ids."""
    return GenRecord(
        run_id="r",
        session_id=f"s{attempt}",
        sample_id=sample_id,
        arm=arm,
        rep=rep,
        slot=0,
        attempt=attempt,
        task=task,
        suite_sha="d",
        input_sha="i",
        prompt_sha="p",
        max_new_tokens=1000,
        status="ok",
        error=None,
        stop_reason="eos",
        loop_flag=False,
        text=text,
        text_sha=sha256_text(text),
        pieces=(
            crop_piece(
                token_ids,
                trace_of(tokens_out=len(token_ids), block=block, accepted=accepted),
                text=text,
                task=task,
            ),
        ),
        submit_ns=0,
        done_ns=1,
    )


def run_identity(**changes: Any) -> RunIdentity:
    """An identity of little, with what a test is about."""
    plain: dict[str, Any] = {
        "gravbench": "0",
        "suite": "s",
        "suite_version": 1,
        "suite_sha": "a",
        "n_samples": 1,
        "samples_sha": "b",
        "prompts": {},
        "max_new_tokens": {},
        "scorer": "crops",
        "strategies": ("ar",),
        "seed": 0,
        "backend": "transformers",
        "engine": "e",
        "model_digest": "c",
        "device": "cpu",
        "dtype": "float32",
        "threads": 1,
    }
    return RunIdentity(**{**plain, **changes})
