"""SGLang through its own endpoint: token ids, the server's times, and its raw counters turned into ours."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gravbench.arms import batch_of, parse_arm
from gravbench.backends.openai import STOPS, budget_of, data_url, failed
from gravbench.backends.serving import (
    Places,
    ReplyError,
    Sharing,
    Stopwatch,
    Wire,
    monotonic_ns,
    reading,
    whole_json,
)
from gravbench.decoding.output import has_loop
from gravbench.decoding.temperature import temperature_of
from gravbench.errors import EngineError, UsageError, shortened
from gravbench.protocols import BackendInfo, Servers
from gravbench.records import Counters, DecodeConfig, Generation, Request, Rounds, Times, Trace

DRAFT_FORWARDS = {"selfspec": 1, "lookup": 0}
"""Full-model draft forwards of a round, by what the strategy is: the server counts its verifies alone."""
NS = 1_000_000_000
PLAIN = {"repetition_penalty": 1.0, "frequency_penalty": 0.0, "presence_penalty": 0.0, "min_p": 0.0}
"""Sent with every request, over what the server takes from `generation_config.json`."""


@dataclass(slots=True)
class _Job:
    request: Request
    url: str
    watch: Stopwatch
    reply: dict[str, Any] = field(default_factory=dict)
    retries: int = 0
    fault: str | None = None


class SGLangBackend:
    """Servers of one checkpoint. `prompts` turns what is asked into the text of a turn with one image."""

    def __init__(
        self, servers: Servers, *, files: Any, tokenizer: Any, limit_s: float = 300.0, retries: int = 2
    ) -> None:
        self._places = Places(servers)
        self._files, self._tokenizer = files, tokenizer
        self._wire = Wire(limit_s=limit_s, retries=retries, key=servers.key)
        try:
            self._settings = {url: self._asked(url) for url in self._places.all}
        except BaseException:
            self._wire.close()
            raise

    def _asked(self, url: str) -> dict[str, Any]:
        """How a server was launched; `EngineError` for one that would not measure anything."""
        found = self._wire.ask("GET", f"{url}/server_info")
        if not isinstance(found, dict) or "version" not in found:
            raise EngineError(f"{url}/server_info: no SGLang server", hint="Other servers: --backend openai.")
        pretended = [key for key, value in _leaves(found) if "SIMULATE_ACC" in key.upper() and value]
        lossy = [key for key, value in _leaves(found) if "accept_threshold" in key and value not in (None, 1)]
        if pretended or lossy:
            raise EngineError(
                f"{url}: {(pretended or lossy)[0]} is set: drafts count that the model rejects",
                hint="Launch the server without it.",
            )
        return found

    def describe(self) -> BackendInfo:
        told = list(self._settings.values())
        cached = [url for url, own in self._settings.items() if not own.get("disable_radix_cache")]
        untimed = [url for url, own in self._settings.items() if not own.get("enable_metrics")]
        return BackendInfo(
            name="sglang",
            model=self._files.folder.name,
            model_digest=self._files.digest(),
            engine="SGLang " + " and ".join(sorted({shortened(str(own["version"]), 40) for own in told})),
            device=" and ".join(sorted({shortened(str(own.get("device") or "server"), 40) for own in told})),
            dtype=" and ".join(sorted({shortened(str(own.get("dtype") or "auto"), 40) for own in told})),
            threads=1,
            eos_token_ids=(),
            mask_token_id=None,
            block_size=None,
            warnings=(
                "sglang: the checkpoint is the one of --model; the server names "
                + " and ".join(sorted({str(own.get("model_path")) for own in told})),
                *(
                    f"sglang: {url} keeps prefixes; requests with cached tokens have no times"
                    for url in cached
                ),
                *(f"sglang: {url} without --enable-metrics tells no time of stages" for url in untimed),
            ),
        )

    def check(self, strategies: Sequence[str]) -> None:
        self._places.check(strategies)
        for arm in strategies:
            for url in self._places.all_of(arm):
                algorithm = self._settings[url].get("speculative_algorithm")
                if parse_arm(arm).is_ar == bool(algorithm):
                    raise UsageError(
                        f"strategy '{arm}': {url} was launched with "
                        + (
                            f"--speculative-algorithm {algorithm}"
                            if algorithm
                            else "no speculative algorithm"
                        ),
                        hint="Name the server of each strategy: --url ar=URL --url selfspec=URL.",
                    )

    def generate(self, request: Request, decode: DecodeConfig) -> Generation:
        return self.generate_batch([request], decode)[0]

    def generate_batch(self, requests: Sequence[Request], decode: DecodeConfig) -> list[Generation]:
        jobs = [
            _Job(request, self._places.of(decode.strategy, request.sample_id), Stopwatch(monotonic_ns))
            for request in requests
        ]

        async def do(job: _Job) -> None:
            job.watch.begin()
            try:
                with reading("reply"):
                    await self._answer(job, decode)
            except ReplyError as fault:
                job.fault = str(fault)
                job.watch.end("")

        self._wire.each(jobs, do, at_once=batch_of(decode.strategy))
        sharing = Sharing([job.watch.span for job in jobs])
        return [_generation(job, sharing, decode) for job in jobs]

    async def _answer(self, job: _Job, decode: DecodeConfig) -> None:
        document = self._document(job.request, decode)
        job.watch.end("image")
        begun = job.watch.clock()

        async def read(parts: AsyncIterator[bytes]) -> dict[str, Any]:
            return await whole_json(parts)

        job.reply, job.retries = await self._wire.post(f"{job.url}/generate", document, read)
        ended = job.watch.clock()
        first, whole = (job.reply["meta_info"].get(f"{name}_latency") for name in ("first_token", "e2e"))
        if first is None or whole is None:
            job.watch.marks.append(("", ended))
        elif not 0 <= first <= whole:
            raise ReplyError("Clock", f"first token after {first} s, the whole after {whole} s")
        else:
            job.watch.marks.append(("prefill", min(begun + int(first * NS), ended)))
            job.watch.marks.append(("decode", ended))

    def _document(self, request: Request, decode: DecodeConfig) -> dict[str, Any]:
        from gravbench.backends.glm.request import prompt_of, turn_text

        drawn = temperature_of(decode.strategy)
        settings = {
            "max_new_tokens": budget_of(request, decode),
            "temperature": drawn.temperature or 0.0,
            **PLAIN,
        }
        if drawn.temperature is not None:
            settings |= {"top_p": drawn.top_p, "top_k": drawn.top_k or -1, "sampling_seed": drawn.seed}
        return {
            "text": turn_text(self._tokenizer, prompt_of(request)),
            "image_data": data_url(request.image_path),
            "sampling_params": settings,
            "stream": False,
        }

    def settle(self) -> None:
        """Empty the caches of servers that keep prefixes, so that no arm finds what another has computed."""
        for url, own in self._settings.items():
            if not own.get("disable_radix_cache"):
                self._wire.ask("POST", f"{url}/flush_cache", document={})

    def take_peak_bytes(self) -> None:
        """Memory of a server is not seen from here."""

    def close(self) -> None:
        self._wire.close()


def open_backend(
    model: Path | None,
    *,
    device: str,  # noqa: ARG001 - where and in what the server computes is told by itself
    dtype: str,  # noqa: ARG001
    threads: int,  # noqa: ARG001
    servers: Servers,
    limit_s: float = 300.0,
    retries: int = 2,
) -> SGLangBackend:
    """`model` is the served checkpoint's folder, for its tokenizer. `limit_s`: seconds a request may take."""
    from transformers import AutoTokenizer

    from gravbench.backends.glm.checkpoint import read_checkpoint
    from gravbench.resources import shipped_model_dir

    if not 0 < limit_s <= 86_400 or not 0 <= retries <= 10:
        raise UsageError(f"backend 'sglang': limit_s {limit_s:g}, retries {retries}: at most 86400 and 10")
    files = read_checkpoint(shipped_model_dir() if model is None else model)
    tokenizer = AutoTokenizer.from_pretrained(files.folder, trust_remote_code=False, local_files_only=True)
    return SGLangBackend(servers, files=files, tokenizer=tokenizer, limit_s=limit_s, retries=retries)


def _leaves(document: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Every key of nested objects with its plain value."""
    if isinstance(document, dict):
        for name, value in document.items():
            yield from _leaves(value, str(name))
    elif isinstance(document, list):
        for value in document:
            yield from _leaves(value, key)
    else:
        yield key, document


def _generation(job: _Job, sharing: Sharing, decode: DecodeConfig) -> Generation:
    """The record of one answer; one that contradicts itself is a fault of its request."""
    name = job.request.request_id
    if job.fault is not None:
        return failed(name, job.fault, job.watch)
    try:
        with reading("reply"):
            ids = tuple(job.reply["output_ids"])
            stop = STOPS.get(job.reply["meta_info"]["finish_reason"]["type"])
            if stop is None:
                raise ReplyError("BadReply", f"finish_reason is {job.reply['meta_info']['finish_reason']}")
            return Generation(
                request_id=name,
                text=job.reply["text"],
                token_ids=ids,
                stop_reason=stop,
                loop_flag=has_loop(ids),
                trace=_trace(job, sharing, decode, out=len(ids)),
                span_ns=job.watch.span,
            )
    except (ReplyError, ValidationError) as fault:
        return failed(name, str(fault), job.watch)


def _trace(job: _Job, sharing: Sharing, decode: DecodeConfig, *, out: int) -> Trace:
    told = job.reply["meta_info"]
    cached, times = told.get("cached_tokens") or 0, sharing.times(job.watch)
    hidden = {"vision": "vision, prefill and waiting in line are one time up to the first token"}
    if told["completion_tokens"] != out or not 1 <= out <= budget_of(job.request, decode):
        raise ReplyError(
            "TokenCount",
            f"{out} token ids, completion_tokens is {told['completion_tokens']}, "
            f"{budget_of(job.request, decode)} were asked for",
        )
    if job.retries or cached:
        hidden["times"] = (
            f"answered at attempt {job.retries + 1}"
            if job.retries
            else (f"{cached} prompt tokens came from the server's cache")
        )
        times = Times()
    counters, rounds, why = counted(told, arm=decode.strategy, out=out)
    return Trace(counters=counters, rounds=rounds, times=times, hidden={**hidden, **why})


def counted(told: dict[str, Any], *, arm: str, out: int) -> tuple[Counters, Rounds | None, dict[str, str]]:
    """Counters and rounds of `out` tokens from a reply's `meta_info`, and what they lack.

    A server without a speculative algorithm makes one forward a token. Of one that drafts, rounds are verify
    calls; its ratios are not taken, since they count the prefill's token.
    """
    images = told.get("image_tokens") or 0
    prompt = {"rows_prefill": told["prompt_tokens"], "prompt_tokens": told["prompt_tokens"] - images}
    known = {"tokens_out": out, "fwd_prefill": 1, "vision_tokens": images, **prompt}
    redone = told.get("num_retractions") or 0
    if parse_arm(arm).is_ar and not redone:
        n = out - 1
        rounds = Rounds(
            offered=(0,) * n, accepted=(0,) * n, committed=(1,) * n, seeds=(0,) * n, extra=(1,) * n,
            forwards={"verify": (1,) * n} if n else {},
        )  # fmt: skip
        return Counters(**known, rounds=n, fwd_verify=n, rows_verify=n, ar_tokens=n), rounds, {}
    verifies = told.get("spec_verify_ct")
    if verifies is None or redone:
        why = f"retracted {redone} times" if redone else "the reply has no spec_verify_ct"
        return Counters(**known, rounds=0), None, {"rounds": why}
    offered, accepted = told["spec_num_proposed_drafts"], told["spec_num_correct_drafts"]
    if out - 1 > accepted + 2 * verifies:
        raise ReplyError("TokenCount", f"{out} tokens of {verifies} rounds that accepted {accepted} drafts")
    hidden = {"rounds": "the server tells their sums, not each of them"}
    drafts = DRAFT_FORWARDS.get(parse_arm(arm).strategy)
    if drafts is None:
        hidden["forwards"] = "the server counts no forwards of its drafter"
    forwards = {} if drafts is None else {"fwd_verify": verifies, "fwd_draft": drafts * verifies}
    return (
        Counters(**known, rounds=verifies, draft_offered=offered, draft_accepted=accepted, **forwards),
        None,
        hidden,
    )
