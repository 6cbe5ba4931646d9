"""`gravbench train`."""

from __future__ import annotations

import re
import sys
from typing import Any

from gravbench.cli.verbs import Train
from gravbench.errors import UsageError


def parse_duration(text: str) -> float:
    """Seconds of "90", "90s", "45m" or "1.5h"; anything else is a `UsageError`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    if match is None:
        raise UsageError(
            f"--budget is '{text}', expected seconds or a number with s, m or h", hint="for example 90m"
        )
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


def print_entry(entry: dict[str, Any]) -> None:
    """One log entry as one line on stderr."""
    values = " ".join(f"{k}={v}" for k, v in entry.items() if k not in ("event", "step", "trained_s"))
    print(
        f"step {entry['step']} ({entry['trained_s']:.0f} s) {entry['event']}: {values}",
        file=sys.stderr,
        flush=True,
    )


def run_training(given: Train) -> int:
    """Train and print where the checkpoint is."""
    from gravbench.workshop.training.losses import Weights
    from gravbench.workshop.training.optimizer import FROM_CHECKPOINT, Curriculum
    from gravbench.workshop.training.trainer import TrainOptions, train

    started, block = given.init is not None, given.block
    options = TrainOptions(
        out=given.out,
        init=given.init,
        budget_s=parse_duration(given.budget),
        processes=given.processes,
        seed=given.seed,
        blocks=(block,) if started else (max(block // 2, 1), block, block, block * 2),
        block=block,
        matrix_lr=given.matrix_lr if given.matrix_lr is not None else (1e-3 if started else 0.02),
        other_lr=given.other_lr if given.other_lr is not None else (1e-4 if started else 2e-3),
        curriculum=FROM_CHECKPOINT if started else Curriculum(),
        weights=Weights(ink=0.0, pointer=0.0, agree=True) if started else Weights(),
        device=given.device,
        report=None if given.quiet else print_entry,
    )
    checkpoint = train(options)
    print(checkpoint)
    return 0
