"""Decode speed of two checkouts of this project, interleaved: is one slower than the other?

    python tests/bench/compare_checkouts.py BEFORE AFTER [--pairs 40] [--arm ar] [--batch 8]

One process a checkout stays open, each with the shipped model on the same crops of `crops-mini`. They take
turns (before, after, after, before, ...) and each says how long the decode rounds of one pass over the crops
took. For each arm and batch size a line says the ratio after / before of the sums, and the 95 % interval of
the geometric mean of the pairs. Exit code 1 when an upper bound is above --limit, or token ids differ.
`--clock cpu` counts processor time in place of wall time: for a machine that others use too.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import IO

WORKER = """
import json, sys, time
from gravbench.backends.transformers_local import TransformersLocal
from gravbench.records import DecodeConfig, Request
from gravbench.resources import shipped_model_dir

crops = json.loads(sys.argv[1])
clock = time.process_time_ns if sys.argv[2] == "cpu" else time.perf_counter_ns
backend = TransformersLocal(shipped_model_dir(), threads=1, clock=clock)
requests = [
    Request(request_id=name, sample_id=name, task=task, image_path=path, max_new_tokens=128)
    for name, task, path in crops
]
for line in sys.stdin:
    arm, batch = json.loads(line)
    decode = DecodeConfig(strategy=arm, max_new_tokens=128)
    if batch == 1:
        found = [backend.generate(request, decode) for request in requests]
    else:
        found = backend.generate_batch(requests, decode)
    spent = sum(answer.trace.times.decode_ns for answer in found)
    print(json.dumps([spent, [list(answer.token_ids) for answer in found]]), flush=True)
"""


class Worker:
    """A checkout under measurement."""

    def __init__(self, checkout: Path, crops: list[tuple[str, str, str]], clock: str) -> None:
        environment = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", WORKER, json.dumps(crops), clock],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=checkout,
        )

    def measure(self, arm: str, batch: int) -> tuple[int, list[list[int]]]:
        """Nanoseconds of decode rounds, and the token ids."""
        _pipe(self._process.stdin).write(json.dumps([arm, batch]) + "\n")
        _pipe(self._process.stdin).flush()
        spent, ids = json.loads(_pipe(self._process.stdout).readline())
        return spent, ids

    def close(self) -> None:
        _pipe(self._process.stdin).close()
        self._process.wait()


def _pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


def crops_of(checkout: Path, count: int) -> list[tuple[str, str, str]]:
    """(id, task, image path) of `count` crops, evenly taken from the shipped suite."""
    from gravbench.suites.manifest import load_samples, load_suite

    samples = load_samples(load_suite("crops-mini"))
    chosen = samples[:: max(1, len(samples) // count)][:count]
    return [(s.sample_id, s.task, str((checkout / s.image_path).resolve())) for s in chosen]


def interval(before: list[int], after: list[int]) -> tuple[float, float, float]:
    """Ratio of the sums, and the 95 % interval of the geometric mean of pairs (normal approximation)."""
    logs = [math.log(a / b) for b, a in zip(before, after, strict=True)]
    mean = sum(logs) / len(logs)
    spread = math.sqrt(sum((x - mean) ** 2 for x in logs) / (len(logs) - 1) / len(logs))
    return sum(after) / sum(before), math.exp(mean - 1.96 * spread), math.exp(mean + 1.96 * spread)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--crops", type=int, default=16)
    parser.add_argument("--arm", action="append")
    parser.add_argument("--batch", type=int, action="append")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--limit", type=float, default=1.03)
    given = parser.parse_args()
    crops = crops_of(given.after, given.crops)
    workers = [Worker(place.resolve(), crops, given.clock) for place in (given.before, given.after)]
    worst = 0.0
    for arm in given.arm or ["ar", "selfspec"]:
        for batch in given.batch or [1, 8]:
            name = arm if batch == 1 else f"{arm}{',' if ':' in arm else ':'}batch={batch}"
            ids = [worker.measure(name, batch)[1] for worker in workers]  # the warm-up
            if ids[0] != ids[1]:
                print(f"{name}: the two checkouts give different token ids")
                return 1
            times: tuple[list[int], list[int]] = ([], [])
            for pair in range(given.pairs):
                for side in (0, 1) if pair % 2 == 0 else (1, 0):
                    times[side].append(workers[side].measure(name, batch)[0])
            ratio, low, high = interval(*times)
            worst = max(worst, high)
            print(
                f"{name}: after / before {ratio:.4f}, 95 % {low:.4f} to {high:.4f} ({given.pairs} pairs); "
                f"fastest of each {min(times[1]) / min(times[0]):.4f}",
                flush=True,
            )
    for worker in workers:
        worker.close()
    return int(worst > given.limit)


if __name__ == "__main__":
    sys.exit(main())
