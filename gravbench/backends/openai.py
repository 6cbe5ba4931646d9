"""Any server with OpenAI's chat endpoint, over HTTP. What the endpoint does not tell is said to be hidden."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from gravbench.arms import batch_of
from gravbench.backends.serving import (
    Places,
    ReplyError,
    Sharing,
    Stopwatch,
    Wire,
    events,
    monotonic_ns,
    reading,
    whole_json,
)
from gravbench.decoding.output import has_loop
from gravbench.decoding.temperature import temperature_of
from gravbench.errors import EngineError, UsageError, shortened
from gravbench.protocols import BackendInfo, Servers
from gravbench.records import Counters, DecodeConfig, Generation, Request, StopReason, Times, Trace

STOPS: dict[str, StopReason] = {"stop": "eos", "length": "length"}
_IMAGES = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg", b"RIFF": "image/webp"}
HIDDEN = {
    "token_ids": "the chat endpoint gives text",
    "rounds": "the chat endpoint counts no rounds and no forwards",
    "vision": "vision, prefill and waiting in line are one time up to the first text",
}


@dataclass(slots=True, kw_only=True)
class Reply:
    """One answer, put together from its body or its events."""

    text: str = ""
    finish: str | None = None
    model: str | None = None
    usage: dict[str, Any] | None = None
    longer: int = 0
    """Texts that began with the text before them: of a stream that repeats itself."""
    parts: int = 0
    _last: str = ""

    def add(self, document: dict[str, Any], part: str) -> str:
        """Take one document; the text that it brought."""
        self.model = document.get("model") or self.model
        self.usage = document.get("usage") or self.usage
        for choice in document.get("choices") or ():
            told = choice.get(part) or {}
            text = told.get("content") or ""
            if not isinstance(text, str):
                raise TypeError(f"content is a {type(text).__name__}")
            if text:
                self.longer += (
                    bool(self._last) and len(text) > len(self._last) and text.startswith(self._last)
                )
                self._last = text
                self.parts += 1
                self.text += text
            self.finish = choice.get("finish_reason") or self.finish
        return self._last if self.text else ""


@dataclass(slots=True)
class _Job:
    request: Request
    url: str
    watch: Stopwatch
    reply: Reply = field(default_factory=Reply)
    retries: int = 0
    fault: str | None = None


class OpenAIBackend:
    """Servers that decode by themselves. `clock` counts nanoseconds of a monotonic clock."""

    def __init__(
        self,
        servers: Servers,
        *,
        stream: bool = True,
        limit_s: float = 300.0,
        retries: int = 2,
        clock: Callable[[], int] = monotonic_ns,
    ) -> None:
        self._places = Places(servers)
        self._stream = stream
        self._clock = clock
        self._wire = Wire(limit_s=limit_s, retries=retries, key=servers.key)
        try:
            listed = {url: self._served(url) for url in self._places.all}
            self._model, self._owner = _chosen(listed, servers.model)
        except BaseException:
            self._wire.close()
            raise

    def _served(self, url: str) -> dict[str, str]:
        """Name of each model of a server, and who it says owns it."""
        document = self._wire.ask("GET", f"{url}/v1/models")
        entries = document.get("data") if isinstance(document, dict) else None
        found = [entry for entry in entries or () if isinstance(entry, dict) and entry.get("id")]
        if not found:
            raise EngineError(f"{url}/v1/models: names no model", hint="Is it an OpenAI-compatible server?")
        return {str(entry["id"]): str(entry.get("owned_by") or "unknown") for entry in found}

    def describe(self) -> BackendInfo:
        return BackendInfo(
            name="openai",
            model=self._model,
            model_digest=hashlib.sha256(f"served as {self._model}".encode()).hexdigest(),
            engine=f"OpenAI-compatible server, {shortened(self._owner, 60)}",
            device="server",
            dtype="server",
            threads=1,
            eos_token_ids=(),
            mask_token_id=None,
            block_size=None,
            warnings=(
                "openai: weights, precision and decoding are what the server was launched with; it tells "
                f"only the name {self._model}, of which the model's digest is made",
            ),
        )

    def check(self, strategies: Sequence[str]) -> None:
        self._places.check(strategies)

    def generate(self, request: Request, decode: DecodeConfig) -> Generation:
        return self.generate_batch([request], decode)[0]

    def generate_batch(self, requests: Sequence[Request], decode: DecodeConfig) -> list[Generation]:
        jobs = [
            _Job(request, self._places.of(decode.strategy, request.sample_id), Stopwatch(self._clock))
            for request in requests
        ]

        async def do(job: _Job) -> None:
            job.watch.begin()
            try:
                with reading("reply"):
                    await self._answer(job, decode)
            except ReplyError as fault:
                job.fault = str(fault)
            job.watch.end("" if job.fault or not self._stream else "decode")

        self._wire.each(jobs, do, at_once=batch_of(decode.strategy))
        sharing = Sharing([job.watch.span for job in jobs])
        return [_generation(job, sharing, budget=budget_of(job.request, decode)) for job in jobs]

    async def _answer(self, job: _Job, decode: DecodeConfig) -> None:
        document = self._document(job.request, decode)
        job.watch.end("image")
        sent = len(job.watch.marks)

        async def read(parts: AsyncIterator[bytes]) -> Reply:
            reply = Reply()
            del job.watch.marks[sent:]  # of an attempt that broke off
            if not self._stream:
                reply.add(await whole_json(parts), "message")
                return reply
            async for event in events(parts):
                if reply.add(event, "delta") and len(job.watch.marks) == sent:
                    job.watch.end("prefill")
            return reply

        job.reply, job.retries = await self._wire.post(f"{job.url}/v1/chat/completions", document, read)
        if job.reply.model not in (None, self._model):
            raise ReplyError("WrongModel", f"{job.reply.model!r} answered, {self._model!r} was asked")

    def _document(self, request: Request, decode: DecodeConfig) -> dict[str, Any]:
        drawn = temperature_of(decode.strategy)
        content: list[dict[str, Any]] = [
            {"type": "image_url", "image_url": {"url": data_url(request.image_path)}}
        ]
        if request.prompt:
            content.append({"type": "text", "text": request.prompt})
        document: dict[str, Any] = {
            "model": self._model,
            "messages": [{"role": "user", "content": content}],
            "max_tokens": budget_of(request, decode),
            "temperature": drawn.temperature or 0,
            "stream": self._stream,
        }
        if self._stream:
            document["stream_options"] = {"include_usage": True}
        if drawn.temperature is not None:
            document |= {"top_p": drawn.top_p, "seed": drawn.seed}
            document |= {} if drawn.top_k is None else {"top_k": drawn.top_k}
        return document

    def settle(self) -> None:
        """Nothing to do between requests."""

    def take_peak_bytes(self) -> None:
        """Memory of a server is not seen from here."""

    def close(self) -> None:
        self._wire.close()


def open_backend(
    model: Path | None,  # noqa: ARG001 - a server has its own
    *,
    device: str,
    dtype: str,
    threads: int,  # noqa: ARG001
    servers: Servers,
    stream: bool = True,
    limit_s: float = 300.0,
    retries: int = 2,
) -> OpenAIBackend:
    """`stream=no` reads whole replies, which have no stage times. `limit_s`: seconds a request may take."""
    if device not in ("cpu", "server") or dtype not in ("float32", "server"):
        raise UsageError("backend 'openai': --device and --dtype are the server's", hint="Leave them out.")
    if not 0 < limit_s <= 86_400 or not 0 <= retries <= 10:
        raise UsageError(
            f"backend 'openai': limit_s is {limit_s:g} and retries {retries}, expected up to 86400 and 10"
        )
    return OpenAIBackend(servers, stream=stream, limit_s=limit_s, retries=retries)


def data_url(path: str) -> str:
    """An image file as a data URL, byte for byte; `ReplyError` for one that servers do not take."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ReplyError("ImageError", f"{path}: {error.strerror}") from error
    kind = next((kind for magic, kind in _IMAGES.items() if content.startswith(magic)), None)
    if kind is None:
        raise ReplyError("ImageError", f"{path}: neither PNG, JPEG nor WebP")
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def _chosen(listed: dict[str, dict[str, str]], asked: str | None) -> tuple[str, str]:
    """The served name to ask for, which all servers must have, and its owner."""
    common = set.intersection(*(set(names) for names in listed.values()))
    if asked is None and len(common) == 1:
        asked = next(iter(common))
    if asked is None or asked not in common:
        known = ", ".join(sorted(set().union(*listed.values())))
        raise UsageError(
            f"--model: {'not given' if asked is None else repr(asked)}, the servers name {known}",
            hint="Name one that every server has.",
        )
    return asked, " and ".join(sorted({names[asked] for names in listed.values()}))


def budget_of(request: Request, decode: DecodeConfig) -> int:
    """Tokens that a request may have."""
    return min(request.max_new_tokens, decode.max_new_tokens)


def _generation(job: _Job, sharing: Sharing, *, budget: int) -> Generation:
    """The record of one answer; one that contradicts itself is a fault of its request."""
    name = job.request.request_id
    if job.fault is not None:
        return failed(name, job.fault, job.watch)
    try:
        with reading("reply"):
            times, hidden = _times(job, sharing)
            counters, told = _counters(job.reply, budget=budget)
            trace = Trace(counters=counters, rounds=None, times=times, hidden={**HIDDEN, **hidden, **told})
            return Generation(
                request_id=name,
                text=job.reply.text,
                token_ids=(),
                stop_reason=_stop(job.reply),
                loop_flag=has_loop([ord(character) for character in job.reply.text]),
                trace=trace,
                span_ns=job.watch.span,
            )
    except (ReplyError, ValidationError) as fault:
        return failed(name, str(fault), job.watch)


def failed(request_id: str, fault: str, watch: Stopwatch) -> Generation:
    """The record of a request without a usable answer."""
    start, end = watch.span
    return Generation(
        request_id=request_id,
        text="",
        token_ids=(),
        stop_reason="error",
        error=" ".join(fault.split()),
        span_ns=None if end < start else (start, end),
    )


def _stop(reply: Reply) -> Literal["eos", "length", "error"]:
    if reply.finish not in STOPS:
        raise ReplyError("BadReply", f"finish_reason is {reply.finish!r}, expected stop or length")
    if reply.longer >= 2 and reply.longer == reply.parts - 1:
        raise ReplyError("BadReply", "each event repeats the text before it; take stream=no for this server")
    return STOPS[reply.finish]


def _times(job: _Job, sharing: Sharing) -> tuple[Times, dict[str, str]]:
    start, end = job.watch.span
    if end < start or any(b < a for _, a, b in job.watch.stages()):
        raise ReplyError("Clock", f"it went back by {max(start - end, 1)} ns or more")
    if job.retries:
        return Times(), {"times": f"answered at attempt {job.retries + 1}"}
    cached = ((job.reply.usage or {}).get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    if cached:
        return Times(), {"times": f"{cached} prompt tokens came from the server's cache"}
    return sharing.times(job.watch), {}


def _counters(reply: Reply, *, budget: int) -> tuple[Counters, dict[str, str]]:
    """Counts as the server gives them, checked for what cannot be."""
    if reply.usage is None:
        return Counters(tokens_out=0, rounds=0), {"tokens_out": "the reply has no usage"}
    out, prompt = reply.usage.get("completion_tokens"), reply.usage.get("prompt_tokens") or 0
    images = (reply.usage.get("prompt_tokens_details") or {}).get("image_tokens") or 0
    if not all(isinstance(n, int) for n in (out, prompt, images)):
        raise ReplyError("TokenCount", f"usage is {reply.usage!r}")
    assert out is not None
    if not (1 if reply.text else 0) <= out <= budget or not 0 <= images <= prompt:
        raise ReplyError(
            "TokenCount",
            f"{out!r} of at most {budget} tokens came out for {len(reply.text)} characters, "
            f"{prompt!r} went in, {images!r} of them of images",
        )
    return Counters(
        tokens_out=out, rounds=0, rows_prefill=prompt, prompt_tokens=prompt - images, vision_tokens=images
    ), {}
