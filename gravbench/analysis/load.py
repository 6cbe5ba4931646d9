"""Throughput and latency of servers in closed loops, while every place of a loop is taken."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gravbench.arms import batch_of
from gravbench.records import Record
from gravbench.store.schema import GenRecord


class Load(Record):
    """What servers did under one strategy, in closed loops of `concurrency` requests.

    Counted while every place of a loop is taken: from its first completion (ramp-up) to its last submission
    (drain), of all groups of crops together. `requests_per_s` and `tokens_per_s` are of answers that came
    back in that time; latencies, in seconds, of answers to what was sent in it, waiting included.
    """

    concurrency: int
    seconds: float
    completed: int
    cut: int
    """Requests that came back outside: ramp-up and drain."""
    failed: int
    requests_per_s: float
    tokens_per_s: float | None = None
    """Absent where a server does not tell how many tokens came out."""
    latency_p50_s: float
    latency_p90_s: float
    latency_p99_s: float


def load_of(records: Sequence[GenRecord]) -> Load | None:
    """The load of one arm's crops; `None` where no loop was refilled, and for pages."""
    crops = [record for record in records if record.task != "page"]
    loops: dict[object, list[GenRecord]] = {}
    for record in crops:
        alone = record.forward_group is None
        loops.setdefault(
            (record.session_id, record.slot if alone else record.forward_group, alone), []
        ).append(record)
    size = batch_of(crops[0].arm) if crops else 1
    spent, back, sent = 0, [], []
    for loop in loops.values():
        if size == 1:
            begin, end = loop[0].submit_ns, loop[0].done_ns
        elif len(loop) <= size:
            continue
        else:
            begin, end = min(r.done_ns for r in loop), max(r.submit_ns for r in loop)
        spent += max(0, end - begin)
        back += [r for r in loop if begin < r.done_ns <= end]
        sent += [r.done_ns - r.submit_ns for r in loop if r.status == "ok" and begin <= r.submit_ns <= end]
    if not spent or not sent:
        return None
    counted = [r.counters for r in back if r.counters is not None]
    told = all("tokens_out" not in trace.hidden for r in back for _, trace in r.answers)
    latencies = np.quantile(np.array(sent) / 1e9, [0.5, 0.9, 0.99]).tolist()
    return Load(
        concurrency=size,
        seconds=spent / 1e9,
        completed=len(back),
        cut=len(crops) - len(back),
        failed=sum(r.status != "ok" for r in back),
        requests_per_s=len(counted) / spent * 1e9,
        tokens_per_s=sum(c.tokens_out for c in counted) / spent * 1e9 if told else None,
        latency_p50_s=latencies[0],
        latency_p90_s=latencies[1],
        latency_p99_s=latencies[2],
    )
