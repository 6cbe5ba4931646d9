"""Runs and pages for the tests of the report: large, hostile, degenerate; and a browser."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from PIL import Image, ImageDraw
from run_support import crop_piece, trace_of, with_trace

from gravbench.analysis.loaded import LoadedRun, SampleFacts, Unit
from gravbench.analysis.run_analysis import AnalysisOptions
from gravbench.records import Counters, Times, Trace
from gravbench.reporting.builder import ReportInput, build_document
from gravbench.reporting.document import ReportDocument
from gravbench.reporting.gallery import SampleSource
from gravbench.store.schema import (
    GenError,
    GenRecord,
    Manifest,
    PlanEntry,
    RunIdentity,
    ScoreRecord,
    sha256_of,
    sha256_text,
)

QUICK = AnalysisOptions(resamples=200)

HOSTILE = (
    "<script>document.title='owned'</script>",
    "</script><script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "<svg onload=document.title='owned'>",
    "<a href=\"javascript:document.title='owned'\">click</a>",
    "--></style></textarea></title><iframe srcdoc=\"<script>parent.name='owned'</script>\"></iframe>",
    "{{ 7 * 7 }}{% for x in y %}${document.title='owned'}",
    "\u202egnp.exe\u202c \u2066 \u200b \ufeff \x00\x07\x1b[31m \u2028 \u2029",
    "]]>&#60;script&#62;&lt;script&gt; \\u003cscript\\u003e",
)
"""What a model or a file name might say to get out of its place."""


def manifest_of(
    *, arms: Sequence[str], n: int, suite: str = "fake", concurrency: int = 1, **identity: object
) -> Manifest:
    """A manifest whose hash fits."""
    whole = {
        "suite": suite,
        "suite_version": 1,
        "suite_sha": "d" * 64,
        "samples_sha": "e" * 64,
        "n_samples": n,
        "strategies": list(arms),
        "seed": 0,
        "threads": 1,
        "backend": "fake",
        "engine": "fake engine",
        "model_digest": "m" * 64,
        "device": "cpu",
        "dtype": "float32",
        "scorer": "crops-fake",
        "prompts": {},
        "max_new_tokens": {},
        "gravbench": "0",
        **identity,
    }
    typed = RunIdentity.model_validate(whole)
    return Manifest(
        run_id="20200101T000000Z-fake",
        created_utc="2020-01-01T00:00:00+00:00",
        argv=("gravbench", "run", "--suite", suite),
        identity=typed,
        identity_sha=sha256_of(typed.document()),
        plan=tuple(PlanEntry(slot=0, sample_id="x", arm=arm) for arm in arms),
        model={"model": "fake", "block_size": 8},
        environment={"python": "3", "packages": {"numpy": "1"}},
        protocol={"concurrency": concurrency},
    )


def record_of(
    sample_id: str,
    arm: str,
    text: str,
    *,
    slot: int = 0,
    tokens: int | None = None,
    accepted: int = 3,
    trace: Trace | None = None,
    task: str = "text",
    noise: float = 0.0,
) -> GenRecord:
    """An ok record of `tokens` ids (default: one a character, at most 64, and EOS)."""
    count = tokens or min(len(text), 63) + 1
    own = trace or trace_of(tokens_out=count, block=0 if arm == "ar" else 8, accepted=accepted)
    ids = (*((7 * i + len(text)) % 900 + 1 for i in range(count - 1)), 0)
    if noise:
        t = own.times
        scaled = {k: None if v is None else int(v * (1 + noise)) for k, v in dict(t).items()}
        own = own.model_copy(update={"times": Times(**scaled)})
    return GenRecord(
        run_id="r",
        session_id="s1",
        sample_id=sample_id,
        arm=arm,
        rep=0,
        slot=slot,
        attempt=1,
        task=task,
        suite_sha="d" * 64,
        input_sha="i",
        prompt_sha="p",
        max_new_tokens=1 << 20,
        status="ok",
        error=None,
        stop_reason="eos",
        text=text,
        text_sha=sha256_text(text),
        pieces=(crop_piece(ids, own, text=text),),
        submit_ns=0,
        done_ns=1,
        loop_flag=False,
    )  # type: ignore[arg-type]


def failed_record(sample_id: str, arm: str, message: str = "does not decode") -> GenRecord:
    """A record of a sample that came to nothing."""
    return GenRecord(
        run_id="r",
        session_id="s1",
        sample_id=sample_id,
        arm=arm,
        rep=0,
        slot=0,
        attempt=1,
        task="text",
        suite_sha="d" * 64,
        input_sha="i",
        prompt_sha="p",
        max_new_tokens=64,
        status="error",
        error=GenError(kind="ImageError", message=message, stage="image"),
        stop_reason="error",
        text="",
        text_sha=sha256_text(""),
        pieces=(),
        submit_ns=0,
        done_ns=1,
        loop_flag=False,
    )


def hidden_rounds_record(sample_id: str, arm: str, text: str) -> GenRecord:
    """What an engine that keeps its rounds to itself would leave: counts of tokens, no log, times."""
    whole = record_of(sample_id, arm, text)
    counters = Counters(tokens_out=len(whole.token_ids), rounds=0)
    trace = Trace(counters=counters, rounds=None, times=whole.times or Times())
    return with_trace(whole, trace)


def loaded(
    records: Mapping[str, Sequence[GenRecord]],
    *,
    value: Callable[[GenRecord], float] = lambda _: 0.25,
    facts: Mapping[str, SampleFacts] | None = None,
    **identity: object,
) -> LoadedRun:
    """A run in memory; `records` by arm, samples in the same order. Every text is scored by `text_ned`."""
    arms = list(records)
    ids = [record.sample_id for record in records[arms[0]]]
    units = tuple(
        Unit(sample_id=i, rep=0, task="text", records={arm: records[arm][k] for arm in arms})
        for k, i in sorted(enumerate(ids), key=lambda pair: pair[1])
    )
    scores = {
        (r.sample_id, 0, arm): (
            ScoreRecord(
                sample_id=r.sample_id,
                arm=arm,
                task="text",
                metric="text_ned",
                signature="ned|fake",
                value=1.0 if r.status != "ok" else value(r),
                counts={},
                failed=r.status != "ok",
                prediction_sha=r.text_sha,
                reference_sha="r",
            ),
        )
        for arm in arms
        for r in records[arm]
    }
    return LoadedRun(
        name="fake",
        manifest=manifest_of(arms=arms, n=len(ids), **identity),
        units=units,
        scores=scores,
        facts=facts or {i: SampleFacts(cluster=i) for i in ids},
    )


def document_of(*runs: LoadedRun, sources: Mapping[str, SampleSource] | None = None) -> ReportDocument:
    """A report document with few resamples."""
    return build_document(
        [
            ReportInput(run=run, name=f"run-{k}", options=QUICK, sources=sources or {})
            for k, run in enumerate(runs)
        ]
    )


def plain_document(n: int = 4) -> ReportDocument:
    """Two arms, equal texts, `n` samples."""
    return document_of(loaded(plain_records(n)))


def plain_records(n: int, *, accepted: int = 3) -> dict[str, list[GenRecord]]:
    """`n` samples whose arms agree."""
    texts = [f"sample {i} reads " + "word " * (i % 7) for i in range(n)]
    return {
        arm: [
            record_of(f"s-{i:04d}", arm, text, slot=2 * i + k, accepted=accepted, noise=0.01 * (i % 5))
            for i, text in enumerate(texts)
        ]
        for k, arm in enumerate(("ar", "selfspec"))
    }


def large_input(folder: Path, n: int = 1_651, *, tokens: int = 900, pictures: int = 6) -> ReportInput:
    """A run of whole pages: some 3 KB of text each, ground truth that differs a little, page images."""
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 11))) for _ in range(6_000)]
    paths = [_page_image(folder / f"page-{k}.jpg", words, rng) for k in range(pictures)]
    records: dict[str, list[GenRecord]] = {"ar": [], "selfspec": []}
    sources: dict[str, SampleSource] = {}
    facts: dict[str, SampleFacts] = {}
    for i in range(n):
        truth = rng.choices(words, k=460)
        said = [w if rng.random() > 0.03 else rng.choice(words) for w in truth]
        name = f"page-{i:05d}.png"
        other = " ".join([*said[:-1], "other"]) if rng.random() < 0.03 else " ".join(said)
        categories = {
            "language": ("english", "chinese", "mixed")[i % 3],
            "layout": ("single", "double", "three", "other")[i % 4],
            "source": f"kind {i % 9}",
        }
        length = max(8, int(tokens * rng.lognormvariate(0, 0.4)))
        for k, (arm, text) in enumerate((("ar", " ".join(said)), ("selfspec", other))):
            record = record_of(
                name, arm, text, slot=2 * i + k, tokens=length, accepted=rng.randint(2, 8), noise=rng.random()
            )
            records[arm].append(record)
        sources[name] = SampleSource(
            image_path=str(paths[i % pictures]), reference=" ".join(truth), categories=categories
        )
        facts[name] = SampleFacts(cluster=name, categories=categories)
    run = loaded(records, value=lambda r: len(r.text) % 17 / 100, facts=facts)
    return ReportInput(run=run, name="large", sources=sources)


BUILD = """
import sys, time
from pathlib import Path
from report_support import large_input
from gravbench.reporting.builder import build_document
from gravbench.reporting.html import render_report
page = Path(sys.argv[1])
given = large_input(page.parent)
begun = time.process_time()
page.write_text(render_report(build_document([given])))
spent = time.process_time() - begun
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(spent, int(peak.split()[1]) / 1024)
"""
"""In a process of its own that says its own peak: `ru_maxrss` of a child counts its parent before `exec`."""


class Built(NamedTuple):
    """What a report cost: seconds of processor time, and MB at the peak of its process."""

    cpu_s: float
    peak_mb: float


def build_large_report(page: Path) -> Built:
    """The report of `large_input`, written to `page` by another process."""
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(page)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return Built(*map(float, done.stdout.split()))


def _page_image(path: Path, words: list[str], rng: random.Random) -> Path:
    image = Image.new("RGB", (1240, 1754), "white")
    draw = ImageDraw.Draw(image)
    for y in range(80, 1680, 26):
        draw.text((90, y), " ".join(rng.choices(words, k=18))[:150], fill="black")
    image.save(path, quality=85)
    return path


CHROMIUM_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
)


def chromium() -> str | None:
    """Path of a Chromium, or `None`."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def dumped_dom(page: Path, profile: Path, *, fragment: str = "", wait_ms: int = 6_000) -> str:
    """The document as Chromium has it after scripts ran for `wait_ms` of virtual time."""
    flags = [*CHROMIUM_FLAGS, f"--user-data-dir={profile}", f"--virtual-time-budget={wait_ms}", "--dump-dom"]
    address = page.as_uri() + (f"#{quote(fragment)}".replace("%3D", "=", 1) if fragment else "")
    done = subprocess.run(
        [str(chromium()), *flags, address], capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout
