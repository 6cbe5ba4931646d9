"""Kill a run over pages at random moments, again and again, and compare what it ends with.

    python tests/e2e/kill_pages.py --kills 60 --suite pages-mini --model CHECKPOINT
    python tests/e2e/kill_pages.py --kills 60 --suite pages-mini --backend toy

One run is left alone. Another is started again after every `kill -9` until it has been killed often enough,
then it may finish. Both must export the same clockless bytes and hold the same files of predictions.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunt:
    """What happened: kills that found the process alive, runs that ended on their own, and what differs."""

    kills: int
    finished_early: int
    differences: tuple[str, ...]


def gravbench(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "gravbench", *arguments]


def hunt(
    run_arguments: Sequence[str], folder: Path, *, kills: int, seed: int = 0, within_s: float | None = None
) -> Hunt:
    """Run once in peace and once hunted, under `folder`.

    Kills come uniformly within `within_s` of a start; by default that is the whole time of the calm run.
    """
    calm, hunted = folder / "calm", folder / "hunted"
    command = gravbench("run", *run_arguments, "--quiet", "--max-errors", "100%")
    started = time.monotonic()
    subprocess.run([*command, "--out", str(calm)], check=True)
    calm_s = time.monotonic() - started
    longest_s = calm_s if within_s is None else within_s
    rng = random.Random(seed)
    killed = early = 0
    while killed < kills:
        process = subprocess.Popen([*command, "--out", str(hunted)])
        time.sleep(rng.uniform(0.0, longest_s))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            killed += 1
        else:
            early += 1
            hunted.rename(folder / f"early-{early}")
        process.wait()
        print(f"{killed} kills, {early} runs that ended first", file=sys.stderr, flush=True)
    subprocess.run([*command, "--out", str(hunted)], check=True)
    ended = [hunted, *sorted(folder.glob("early-*"))]
    return Hunt(
        kills=killed,
        finished_early=early,
        differences=tuple(text for other in ended for text in differences(calm, other)),
    )


def differences(first: Path, second: Path) -> list[str]:
    """Names of what is not the same, byte for byte, in two finished runs."""
    found = []
    exports = [
        subprocess.run(gravbench("export", str(run), "--clockless"), check=True, capture_output=True).stdout
        for run in (first, second)
    ]
    if exports[0] != exports[1]:
        found.append(f"{second.name}: clockless export")
    trees = [
        {
            p.relative_to(run / "predictions"): p.read_bytes()
            for p in (run / "predictions").rglob("*")
            if p.is_file()
        }
        for run in (first, second)
    ]
    names = trees[0].keys() | trees[1].keys()
    found += [f"{second.name}: {n}" for n in sorted(names) if trees[0].get(n) != trees[1].get(n)]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--within", type=float, help="seconds after a start in which a kill comes")
    parser.add_argument("--keep", type=Path, help="keep the runs in this folder")
    own, run_arguments = parser.parse_known_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    folder = own.keep or Path(tempfile.mkdtemp(prefix="kill-pages-"))
    try:
        outcome = hunt(run_arguments, folder, kills=own.kills, seed=own.seed, within_s=own.within)
    finally:
        if own.keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{outcome.kills} kills, {outcome.finished_early} runs ended before theirs")
    print("\n".join(outcome.differences) or "same bytes")
    return 1 if outcome.differences else 0


if __name__ == "__main__":
    sys.exit(main())
