"""Requests to a server over HTTP: where each goes, how long it may take, and what its time was.

Several requests are under way at once where an arm says so (`batch=4`): a closed loop, in which the next one
is sent when one returns. Each has a limit of time. Failures of the transport are tried again, a few times and
within it; what a server answers is never asked for twice. The times of a retried request are not told.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import time
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx2

from gravbench.arms import BATCH, SAMPLING, parse_arm
from gravbench.errors import EngineError, UsageError, printable, shortened
from gravbench.protocols import Servers
from gravbench.records import Times

T = TypeVar("T")

MAX_REPLY_BYTES = 64 << 20
RETRY_PAUSE_S = 0.1
_URL = re.compile(r"(?:([a-z][a-z0-9_]*)=)?(https?://\S+)")


class ReplyError(Exception):
    """One request has no usable answer; the text is `Kind: what happened`."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {shortened(printable(message), 300)}")


def urls_by_strategy(servers: Servers) -> dict[str | None, tuple[str, ...]]:
    """URLs by strategy id, in the order given; `None`: those of any. `UsageError` for what is no URL."""
    found: dict[str | None, list[str]] = {}
    for given in servers.urls:
        match = _URL.fullmatch(given)
        place = urlsplit(match[2]) if match else None
        if match is None or place is None or not place.hostname or "@" in place.netloc or place.query:
            raise UsageError(  # not quoted: it may hold a secret
                "--url: not http(s)://HOST:PORT, or it holds a name, a password or a query",
                hint="For example http://127.0.0.1:8000 or selfspec=http://127.0.0.1:8001; "
                "a key comes from GRAVBENCH_API_KEY.",
            )
        found.setdefault(match[1], []).append(match[2].rstrip("/").removesuffix("/v1"))
    return {strategy: tuple(urls) for strategy, urls in found.items()}


class Places:
    """Which server answers which request: that of the sample, so that a pair and a page stay on one."""

    def __init__(self, servers: Servers) -> None:
        self._urls = urls_by_strategy(servers)
        if not self._urls:
            raise UsageError(
                "a backend over HTTP needs a server", hint="For example --url http://127.0.0.1:8000."
            )
        counts = {len(urls) for urls in self._urls.values()}
        if (None in self._urls and len(self._urls) > 1) or len(counts) > 1:
            raise UsageError(
                "--url: some strategies have more servers than others",
                hint="As many URLs for each, --url ar=URL --url selfspec=URL, or no strategy named.",
            )
        (self.count,) = counts

    @property
    def all(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(url for urls in self._urls.values() for url in urls))

    def check(self, arms: Sequence[str]) -> None:
        """`UsageError` for an arm that no server decodes, or with options that no request carries."""
        read = [parse_arm(arm) for arm in arms]
        for arm in read:
            unknown = [name for name, _ in arm.options if name not in (BATCH, *SAMPLING)]
            if unknown:
                raise UsageError(
                    f"strategy '{arm.text}': a server is launched with its {unknown[0]}, no request sets it",
                    hint=f"Launch a server for it, and run plain {arm.strategy} on that.",
                )
            if None not in self._urls and arm.strategy not in self._urls:
                raise UsageError(
                    f"strategy '{arm.text}': no server decodes it", hint=f"Add --url {arm.strategy}=URL."
                )
        strategies = sorted({arm.strategy for arm in read})
        if None in self._urls and len(strategies) > 1:
            raise UsageError(
                f"--url: {' and '.join(strategies)} on the same server, which decodes in one way",
                hint="Name the strategy of each server: --url ar=URL --url selfspec=URL.",
            )

    def all_of(self, arm: str) -> tuple[str, ...]:
        """The URLs that answer an arm."""
        return self._urls.get(parse_arm(arm).strategy) or self._urls[None]

    def of(self, arm: str, sample_id: str) -> str:
        """The URL that answers a sample, or a region `page#region` of one, in an arm."""
        urls = self.all_of(arm)
        name = sample_id.partition("#")[0].encode("utf-8")
        return urls[int.from_bytes(hashlib.sha256(name).digest()[:4]) % len(urls)]


@dataclass(slots=True)
class Stopwatch:
    """When stages of one request began and ended, nanoseconds of a monotonic clock."""

    clock: Callable[[], int]
    marks: list[tuple[str, int]] = field(default_factory=list)
    """(stage, its end), in order; the first has no stage and is the beginning."""

    def begin(self) -> None:
        self.marks = [("", self.clock())]

    def end(self, stage: str) -> None:
        self.marks.append((stage, self.clock()))

    @property
    def span(self) -> tuple[int, int]:
        return self.marks[0][1], self.marks[-1][1]

    def stages(self) -> Iterator[tuple[str, int, int]]:
        for (_, start), (stage, end) in pairwise(self.marks):
            yield stage, start, end


class Sharing:
    """Wall clock shared equally among the requests under way, as requests of one batch share forwards.

    So times of a run add up to the time it took; that of a request alone is its latency.
    """

    def __init__(self, spans: Sequence[tuple[int, int]]) -> None:
        changes = sorted([(start, 1) for start, _ in spans] + [(end, -1) for _, end in spans])
        self._edges: list[tuple[int, float]] = []
        """(moment, share of one request that was under way from the first moment on)."""
        shared, active = 0.0, 0
        for (at, change), (after, _) in pairwise([*changes, (changes[-1][0], 0)] if changes else []):
            active += change
            self._edges.append((at, shared))
            shared += (after - at) / active if active > 0 else 0.0
        if changes:
            self._edges.append((changes[-1][0], shared))

    def of(self, start: int, end: int) -> int:
        """The share, in ns, of what lies between two moments."""
        return max(0, int(self._until(end) - self._until(start))) if end >= start else end - start

    def _until(self, moment: int) -> float:
        at = bisect_right(self._edges, (moment, float("inf"))) - 1
        if at < 0:
            return 0.0
        (begin, before), after = self._edges[at], self._edges[at + 1 : at + 2]
        if not after or after[0][0] == begin:
            return before
        return before + (moment - begin) * (after[0][1] - before) / (after[0][0] - begin)

    def times(self, watch: Stopwatch) -> Times:
        """Times of one request: of each stage, and of all of it."""
        spent: dict[str, int] = {}
        for stage, start, end in watch.stages():
            if stage:
                spent[f"{stage}_ns"] = spent.get(f"{stage}_ns", 0) + self.of(start, end)
        return Times(**spent, total_ns=self.of(*watch.span))


class Wire:
    """The connections of one backend, and the loop that serves them; not for several threads."""

    def __init__(self, *, limit_s: float, retries: int, key: str | None) -> None:
        self.limit_s = limit_s
        self._retries = retries
        self._key = key
        self._runner = asyncio.Runner()
        self._client: httpx2.AsyncClient | None = None

    def run(self, work: Callable[[Wire], Coroutine[Any, Any, T]]) -> T:
        """Run one piece of work to its end; an interruption cancels what is under way."""
        return self._runner.run(work(self))

    def each(self, jobs: Sequence[T], do: Callable[[T], Coroutine[Any, Any, None]], *, at_once: int) -> None:
        """`do` each job, `at_once` of them under way; a fault that is no request's own ends all."""

        async def worker(queue: Iterator[T]) -> None:
            for job in queue:
                await do(job)

        async def loop(_: Wire) -> None:
            queue = iter(jobs)
            async with asyncio.TaskGroup() as group:
                for _number in range(min(at_once, len(jobs))):
                    group.create_task(worker(queue))

        try:
            self.run(loop)
        except BaseExceptionGroup as faults:
            fault: BaseException = faults
            while isinstance(fault, BaseExceptionGroup):
                fault = fault.exceptions[0]
            raise fault from None

    async def post(
        self,
        url: str,
        document: Mapping[str, Any],
        read: Callable[[AsyncIterator[bytes]], Coroutine[Any, Any, T]],
    ) -> tuple[T, int]:
        """What `read` makes of the body of the answer, and how often the request was sent again.

        `ReplyError` for an answer that is none, `EngineError` where nobody answers at this address.
        """
        body = json.dumps(document).encode("utf-8")
        fault: httpx2.TransportError | None = None
        try:
            async with asyncio.timeout(self.limit_s):
                for attempt in range(self._retries + 1):
                    if attempt:
                        await asyncio.sleep(RETRY_PAUSE_S * 2 ** (attempt - 1))
                    try:
                        async with self._answer("POST", url, body) as response:
                            return await read(_limited(response.aiter_bytes())), attempt
                    except httpx2.TransportError as error:
                        fault = error
        except TimeoutError:
            raise ReplyError("TimeLimit", f"no whole answer within {self.limit_s:g} s") from fault
        if isinstance(fault, httpx2.ConnectError):
            raise self._gone(url, fault) from fault
        raise ReplyError("Transport", self._safe(f"{type(fault).__name__}: {fault}")) from fault

    def ask(self, method: str, url: str, *, document: Mapping[str, Any] | None = None) -> Any:
        """The JSON of an answer that is no measurement; `None` where there is no such page or no JSON."""

        async def work(_: Wire) -> Any:
            body = None if document is None else json.dumps(document).encode("utf-8")
            try:
                async with asyncio.timeout(self.limit_s), self._answer(method, url, body) as response:
                    return json.loads(b"".join([part async for part in _limited(response.aiter_bytes())]))
            except (ReplyError, ValueError):
                return None
            except (httpx2.TransportError, TimeoutError) as error:
                raise self._gone(url, error) from error

        return self.run(work)

    def close(self) -> None:
        if self._client is not None:
            self._runner.run(self._client.aclose())
        self._runner.close()

    @asynccontextmanager
    async def _answer(self, method: str, url: str, body: bytes | None) -> AsyncIterator[httpx2.Response]:
        """A 200; anything else is a `ReplyError` that quotes it."""
        headers = {"content-type": "application/json"}
        if self._key:
            headers["authorization"] = f"Bearer {self._key}"
        if self._client is None:  # inside the loop that it belongs to; proxies are no business of a benchmark
            limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
            self._client = httpx2.AsyncClient(timeout=None, limits=limits, trust_env=False)
        async with self._client.stream(method, url, content=body, headers=headers) as response:
            if response.status_code != 200:
                said = b""
                async for part in response.aiter_bytes():
                    said += part
                    if len(said) > 2000:
                        break
                raise ReplyError(
                    f"Http{response.status_code}", self._safe(said.decode("utf-8", "replace") or "no body")
                )
            yield response

    def _gone(self, url: str, error: Exception) -> EngineError:
        return EngineError(
            f"{url}: no answer: {self._safe(str(error)) or type(error).__name__}",
            hint="Start the server, then repeat the same command: a run continues where it stopped.",
        )

    def _safe(self, text: str) -> str:
        return text.replace(self._key, "[key]") if self._key else text


async def _limited(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    size = 0
    async for part in parts:
        size += len(part)
        if size > MAX_REPLY_BYTES:
            raise ReplyError("BadReply", f"longer than {MAX_REPLY_BYTES >> 20} MiB")
        yield part


async def whole_json(parts: AsyncIterator[bytes]) -> dict[str, Any]:
    """A body that is one JSON object."""
    return json_object(b"".join([part async for part in parts]))


def json_object(text: bytes) -> dict[str, Any]:
    """`ReplyError` for what is no JSON object, or one that says `error`."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ReplyError("BadJson", f"{error}; it begins {text[:80].decode('utf-8', 'replace')!r}") from error
    if not isinstance(found, dict):
        raise ReplyError("BadReply", f"a JSON {type(found).__name__}, expected an object")
    if found.get("error"):
        raise ReplyError("ServerError", json.dumps(found["error"]))
    return found


async def events(parts: AsyncIterator[bytes]) -> AsyncIterator[dict[str, Any]]:
    """The JSON objects of a stream of server-sent events; a stream without its end `[DONE]` is a fault."""
    rest = b""
    async for part in parts:
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            data = line.strip().removeprefix(b"data:").strip() if line.startswith(b"data:") else b""
            if data == b"[DONE]":
                return
            if data:
                yield json_object(data)
    raise ReplyError("BadReply", "the stream ended before its end was said")


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Turn a reply of another form into a fault of its request."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise ReplyError("BadReply", f"{what}: {type(error).__name__}: {error}") from error


def monotonic_ns() -> int:
    """The clock of sessions, so that spans and their moments compare."""
    return time.perf_counter_ns()
