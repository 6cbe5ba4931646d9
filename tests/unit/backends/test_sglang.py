"""SGLang's endpoint: tokens, times and counters of a reply become ours; what would not measure is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from http_servers import ChatServer, chat_server, picture

from gravbench.backends.registry import open_backend
from gravbench.backends.sglang import counted
from gravbench.errors import EngineError, UsageError
from gravbench.protocols import Backend, Servers
from gravbench.records import DecodeConfig, Generation, Request


@pytest.fixture
def servers() -> Iterator[tuple[ChatServer, ChatServer]]:
    """A server that decodes plainly, and one that drafts."""
    with chat_server() as plain, chat_server() as drafting:
        for server in (plain, drafting):
            server.info |= {"enable_metrics": True, "disable_radix_cache": True, "dtype": "bfloat16"}
        drafting.info["speculative_algorithm"] = "SELFSPEC"
        yield plain, drafting


def opened(servers: tuple[ChatServer, ChatServer]) -> Backend:
    plain, drafting = servers
    return open_backend("sglang", servers=Servers(urls=(f"ar={plain.url}", f"selfspec={drafting.url}")))


def ask(backend: Backend, folder: Path, fault: str, *, arm: str) -> Generation:
    path = folder / "image.png"
    path.write_bytes(picture(fault, "a line of text"))
    request = Request(
        request_id="r", sample_id="s", task="text", image_path=str(path), prompt="Read:", max_new_tokens=30
    )
    return backend.generate(request, DecodeConfig(strategy=arm, max_new_tokens=30))


def test_a_reply_becomes_tokens_counters_and_times(
    servers: tuple[ChatServer, ChatServer], tmp_path: Path
) -> None:
    backend = opened(servers)
    backend.check(["ar", "selfspec"])
    ar, own = (ask(backend, tmp_path, "", arm=arm) for arm in ("ar", "selfspec"))
    assert ar.token_ids == own.token_ids == (*map(ord, "a line of text"), 0) and ar.stop_reason == "eos"
    assert ar.trace is not None and own.trace is not None
    assert ar.trace.rounds is not None and ar.trace.rounds.count == ar.trace.counters.fwd_verify == 14
    counters = own.trace.counters
    assert (counters.rounds, counters.draft_offered, counters.draft_accepted) == (3, 12, 9)
    assert counters.decode_forwards == 6 and own.trace.rounds is None and "rounds" in own.trace.hidden
    assert (counters.prompt_tokens, counters.vision_tokens, counters.rows_prefill) == (8, 12, 20)
    times = own.trace.times
    assert times.prefill_ns and times.decode_ns is not None and times.total_ns
    body = servers[1].bodies[-1]
    assert body["text"].count("<|image|>") == 1 and "Read:" in body["text"]
    assert body["sampling_params"]["repetition_penalty"] == 1.0
    info = backend.describe()
    assert (info.engine, info.dtype) == ("SGLang 0.5.23", "bfloat16")
    backend.settle()
    assert not servers[0].asked["/flush_cache"]
    backend.close()


@pytest.mark.parametrize(
    ("fault", "kind"),
    [("count", "TokenCount"), ("clock", "Clock"), ("abort", "BadReply"), ("rounds", "TokenCount")],
)
def test_a_reply_that_contradicts_itself_fails(
    servers: tuple[ChatServer, ChatServer], tmp_path: Path, fault: str, kind: str
) -> None:
    backend = opened(servers)
    answer = ask(backend, tmp_path, fault, arm="selfspec")
    assert answer.stop_reason == "error" and str(answer.error).startswith(f"{kind}: ")
    backend.close()


def test_cached_tokens_cost_a_request_its_times_and_caches_are_emptied(
    servers: tuple[ChatServer, ChatServer], tmp_path: Path
) -> None:
    servers[0].info["disable_radix_cache"] = False
    backend = opened(servers)
    answer = ask(backend, tmp_path, "cached", arm="ar")
    assert answer.trace is not None and answer.trace.times.total_ns is None
    assert answer.trace.hidden["times"].startswith("5 prompt tokens")
    assert any("keeps prefixes" in warning for warning in backend.describe().warnings)
    backend.settle()
    assert (servers[0].asked["/flush_cache"], servers[1].asked["/flush_cache"]) == (1, 0)
    backend.close()


@pytest.mark.parametrize(
    "setting",
    [{"env": {"SGLANG_SIMULATE_ACC_LEN": "4"}}, {"speculative_accept_threshold_single": 0.9}],
)
def test_a_server_that_pretends_is_refused(
    servers: tuple[ChatServer, ChatServer], setting: dict[str, object]
) -> None:
    servers[1].info |= setting
    with pytest.raises(EngineError, match="drafts count that the model rejects"):
        opened(servers)


def test_a_server_decodes_as_it_was_launched(servers: tuple[ChatServer, ChatServer]) -> None:
    backend = opened((servers[1], servers[0]))
    with pytest.raises(UsageError, match="launched with --speculative-algorithm SELFSPEC"):
        backend.check(["ar"])
    with pytest.raises(UsageError, match="no speculative algorithm"):
        backend.check(["selfspec"])
    backend.close()


def test_forwards_of_an_unknown_drafter_and_retracted_requests_are_hidden() -> None:
    told = {
        "prompt_tokens": 4,
        "spec_verify_ct": 2,
        "spec_num_proposed_drafts": 6,
        "spec_num_correct_drafts": 3,
    }
    counters, rounds, hidden = counted(told, arm="tree", out=6)
    assert (counters.rounds, counters.decode_forwards, rounds) == (2, 0, None) and "forwards" in hidden
    counters, rounds, hidden = counted({**told, "num_retractions": 1}, arm="ar", out=6)
    assert (counters.rounds, rounds, hidden["rounds"]) == (0, None, "retracted 1 times")
