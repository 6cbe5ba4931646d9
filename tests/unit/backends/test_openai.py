"""A server behind HTTP: what it tells is recorded, what it hides is said, no fault of it loses a request."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from http_servers import ChatServer, chat_server, picture
from run_support import QuietProgress, fake_suite

from gravbench.analysis.loaded import load_run
from gravbench.analysis.run_analysis import AnalysisOptions, analyse_run
from gravbench.backends.openai import OpenAIBackend
from gravbench.backends.serving import Places, Sharing, Stopwatch
from gravbench.errors import EngineError, UsageError
from gravbench.options import RunOptions
from gravbench.protocols import Servers
from gravbench.records import DecodeConfig, Generation, Request
from gravbench.runner.engine import as_arms, open_engine
from gravbench.runner.run import run
from gravbench.store.rundir import RunDirectory
from gravbench.suites.samples import Sample

ENDS = {
    "": None, "several": None, "cached": None, "nousage": None, "once": None,
    "500": "Http500", "429": "Http429", "hang": "TimeLimit", "reset": "Transport", "truncated": "BadJson",
    "many": "TokenCount", "minus": "TokenCount", "none": "TokenCount", "model": "WrongModel",
    "finish": "BadReply", "short": "BadReply", "cumulative": "BadReply",
}  # fmt: skip
"""Fault of the server -> kind of error that is recorded; `None`: an answer."""


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with chat_server() as started:
        yield started


def requests(folder: Path, faults: Sequence[str]) -> list[Request]:
    found = []
    for number, fault in enumerate(faults):
        path = folder / f"{number}.png"
        path.write_bytes(picture(fault, f"text {number}"))
        found.append(
            Request(
                request_id=f"s{number}",
                sample_id=f"s{number}",
                task="text",
                image_path=str(path),
                prompt="Read:",
                max_new_tokens=20,
            )
        )
    return found


def ask(
    server: ChatServer, asked: Sequence[Request], *, arm: str = "ar:batch=8", **options: Any
) -> list[Generation]:
    options = {"limit_s": 0.5, "retries": 1, **options}
    backend = OpenAIBackend(Servers(urls=(server.url,), key="sesame"), **options)
    try:
        return backend.generate_batch(asked, DecodeConfig(strategy=arm, max_new_tokens=100))
    finally:
        backend.close()


def test_every_fault_ends_in_its_own_outcome_and_none_in_anothers(server: ChatServer, tmp_path: Path) -> None:
    answers = ask(server, requests(tmp_path, list(ENDS)))
    for (fault, kind), (number, answer) in zip(ENDS.items(), enumerate(answers), strict=True):
        assert answer.request_id == f"s{number}"
        if kind is None:
            assert (answer.text, answer.stop_reason, answer.error) == (f"text {number}", "eos", None), fault
        else:
            assert answer.stop_reason == "error" and str(answer.error).startswith(f"{kind}: "), (
                fault,
                answer,
            )
    by_fault = dict(zip(ENDS, answers, strict=True))
    traces = {fault: answer.trace for fault, answer in by_fault.items() if answer.trace is not None}
    assert traces[""].counters.tokens_out == len("text 0") + 1
    assert "token_ids" in traces[""].hidden and traces[""].rounds is None
    assert traces[""].times.prefill_ns is not None and "times" not in traces[""].hidden
    assert traces["cached"].hidden["times"].startswith("4 prompt tokens")
    assert (traces["cached"].counters.vision_tokens, traces["cached"].times.total_ns) == (6, None)
    assert traces["nousage"].hidden["tokens_out"] and traces["nousage"].counters.tokens_out == 0
    assert traces["once"].hidden["times"] == "answered at attempt 2"
    assert server.asked["text 5"] == 1  # what a server answers is not asked for again
    assert server.headers["authorization"] == "Bearer sesame" and "sesame" not in str(answers)
    assert "[key]" in str(by_fault["500"].error)


def test_a_hang_ends_at_its_limit(server: ChatServer, tmp_path: Path) -> None:
    started = time.perf_counter()
    (answer,) = ask(server, requests(tmp_path, ["hang"]), limit_s=0.2)
    assert str(answer.error).startswith("TimeLimit: no whole answer within 0.2 s")
    assert time.perf_counter() - started < 5


def test_whole_replies_are_read_too(server: ChatServer, tmp_path: Path) -> None:
    good, cut = ask(server, requests(tmp_path, ["", "truncated"]), stream=False)
    assert good.text == "text 0" and good.trace is not None
    assert good.trace.times.prefill_ns is None and good.trace.times.total_ns
    assert str(cut.error).startswith("BadJson: ")


def test_a_clock_that_goes_back_fails_its_request_alone(server: ChatServer, tmp_path: Path) -> None:
    ticks = iter([*range(1000, 0, -1)])
    (answer,) = ask(server, requests(tmp_path, [""]), clock=lambda: next(ticks))
    assert str(answer.error).startswith("Clock: ") and answer.span_ns is None


@pytest.mark.parametrize("size", [1, 4])
def test_as_many_are_under_way_as_the_arm_says(server: ChatServer, tmp_path: Path, size: int) -> None:
    answers = ask(server, requests(tmp_path, [""] * 12), arm="ar" if size == 1 else f"ar:batch={size}")
    assert all(answer.error is None for answer in answers) and server.most <= size
    spans = [answer.span_ns for answer in answers if answer.span_ns is not None]
    shares = sum(a.trace.times.total_ns or 0 for a in answers if a.trace is not None)
    busy = max(end for _, end in spans) - min(start for start, _ in spans)
    assert shares <= busy  # times of requests that overlap add up to what the clock showed


def test_shares_are_the_time_divided_by_those_under_way() -> None:
    sharing = Sharing([(0, 100), (50, 150), (300, 400)])
    assert [sharing.of(0, 100), sharing.of(50, 150), sharing.of(300, 400)] == [75, 75, 100]
    watch = Stopwatch(iter([50, 60, 110, 150]).__next__)
    watch.begin()
    for stage in ("image", "prefill", "decode"):
        watch.end(stage)
    times = sharing.times(watch)
    assert (times.image_ns, times.prefill_ns, times.decode_ns, times.total_ns) == (5, 30, 40, 75)


def crops(folder: Path, faults: Sequence[str]) -> tuple[Sample, ...]:
    return tuple(
        Sample(
            sample_id=request.sample_id,
            task="text",
            image_path=request.image_path,
            image_sha256="0" * 64,
            reference=f"text {number}",
            attributes={},
        )
        for number, request in enumerate(requests(folder, faults))
    )


def test_a_thousand_requests_lose_nothing(server: ChatServer, tmp_path: Path) -> None:
    faults = [fault for fault in ENDS if fault not in ("hang", "once")]
    few = requests(tmp_path, faults)
    many = [few[n % len(few)].model_copy(update={"request_id": f"r{n}"}) for n in range(1000)]
    answers = ask(server, many, arm="ar:batch=16", limit_s=60, retries=0)
    assert [answer.request_id for answer in answers] == [f"r{n}" for n in range(1000)]
    for number, answer in enumerate(answers):
        kind = ENDS[faults[number % len(few)]]
        assert (answer.error is None) == (kind is None)
        assert kind is None or str(answer.error).startswith(f"{kind}: ")


def test_a_run_keeps_what_failed_in_its_denominators_and_no_key(
    server: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAVBENCH_API_KEY", "open-sesame")
    faults = [fault for fault in ENDS if fault not in ("hang", "once")]
    chosen = [faults[number % len(faults)] for number in range(120)]
    options = as_arms(
        RunOptions(
            suite="fake",
            out=tmp_path / "run",
            backend="openai:limit_s=20,retries=0",
            strategies=("ar", "selfspec"),
            concurrency="4",
            url=(f"ar={server.url}", f"selfspec={server.url}/v1"),
        )
    )
    samples = crops(tmp_path, chosen)
    outcome = run(
        options, fake_suite(), samples, open_backend=open_engine, progress=QuietProgress(), environ={}
    )
    records = RunDirectory(tmp_path / "run").generations()
    assert len(records) == 240 and outcome.too_many_errors
    good = sum(ENDS[fault] is None for fault in chosen)
    analysis = analyse_run(load_run(tmp_path / "run"), AnalysisOptions(resamples=100))
    judged = {own.arm: own for own in analysis.arms}
    for arm in ("ar:batch=4", "selfspec:batch=4"):
        own = [record for record in records if record.arm == arm]
        assert sum(record.status == "ok" for record in own) == good
        for record in own:
            kind = ENDS[chosen[int(record.sample_id[1:])]]
            assert (record.error.kind if record.error else None) == kind
        assert outcome.summary.strategies[arm].failed == 120 - good
        load = outcome.summary.strategies[arm].load
        assert load == judged[arm].load
        assert load is not None and load.concurrency == 4 and 0 < load.completed == 120 - load.cut
        assert outcome.summary.strategies[arm].identical_to_ar is not None or arm.startswith("ar")
    written = b"".join(path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file())
    assert b"sesame" not in written
    assert all(record.peak_memory is None for record in records)


def test_a_pair_and_a_page_stay_on_one_server() -> None:
    places = Places(
        Servers(urls=("ar=http://a:1", "ar=http://a:2", "selfspec=http://b:1", "selfspec=http://b:2"))
    )
    ends = set()
    for number in range(40):
        ar, own = (places.of(arm, f"page-{number}") for arm in ("ar", "selfspec:batch=4"))
        assert ar[-1] == own[-1] and places.of("ar", f"page-{number}#7") == ar
        ends.add(ar)
    assert ends == {"http://a:1", "http://a:2"}


@pytest.mark.parametrize(
    ("urls", "arms", "word"),
    [
        ((), ("ar",), "needs a server"),
        (("ftp://a",), ("ar",), "not http"),
        (("http://me:secret@a",), ("ar",), "a password"),
        (("http://a", "selfspec=http://b"), ("ar",), "more servers"),
        (("http://a",), ("ar", "selfspec"), "decodes in one way"),
        (("ar=http://a",), ("selfspec",), "no server decodes it"),
        (("selfspec=http://a",), ("selfspec:block=8",), "launched with its block"),
    ],
)
def test_servers_that_cannot_answer_are_refused(
    urls: tuple[str, ...], arms: tuple[str, ...], word: str
) -> None:
    with pytest.raises(UsageError, match=word) as caught:
        Places(Servers(urls=urls)).check(arms)
    assert "secret" not in caught.value.whole


def test_a_server_that_is_not_there_ends_the_run_at_once() -> None:
    with pytest.raises(EngineError, match="no answer"):
        OpenAIBackend(Servers(urls=("http://127.0.0.1:9",)))


def test_concurrency_and_urls_are_of_served_backends_alone() -> None:
    plain = RunOptions(suite="s", backend="toy", concurrency="1,4")
    with pytest.raises(UsageError, match="--concurrency"):
        as_arms(plain)
    served = as_arms(plain.but(backend="openai", strategies=("ar",), url=("http://a",)))
    assert served.strategies == ("ar", "ar:batch=4")
    with pytest.raises(UsageError, match="--url"):
        open_engine(RunOptions(suite="s", backend="toy", url=("http://a",)), fake_suite())
