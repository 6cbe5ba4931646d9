"""What a bench of olmOCR-Bench's kinds costs in processor time, and the official runner beside it.

`GRAVBENCH_OLMOCR_PYTHON` names an interpreter that has PyPI's `olmocr`; without it that is not
measured.
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from run_support import child_environment

from gravbench.workshop.olmocr_mini import Page

pytestmark = pytest.mark.bench

WORDS = (
    "amber",
    "river",
    "stone",
    "lantern",
    "window",
    "compute",
    "matrix",
    "of",
    "the",
    "harbour",
    "ledger",
)
ROUNDS = 5
MAX_TEXT_S, MAX_MATH_S, MAX_CHROMIUM_S = 2.4, 5.0, 8.0
PAGES, MATH_PAGES = 200, 25


def write(folder: Path, *, math: bool) -> None:
    """200 pages of 3,700 characters with 1,200 tests (200 automatic); or 25 pages with 100 formulas."""
    rng = random.Random(7)
    tests: list[str] = []
    for name in ("pdfs", "engine"):
        (folder / name).mkdir(parents=True)
    for number in range(MATH_PAGES if math else PAGES):
        page = Page(f"p{number:03}")
        words = [rng.choice(WORDS) + rng.choice(("", "", str(rng.randrange(99)))) for _ in range(560)]
        text = "\n\n".join(" ".join(words[start : start + 70]) for start in range(0, 560, 70))
        if math:
            formulas = [
                rf"\frac{{a_{{{number}}} + {i}}}{{x^{{{i}}} - y}} = \sqrt{{z + {number}}}" for i in range(8)
            ]
            text = "\n\n".join(f"{words[i]} $${formula}$$" for i, formula in enumerate(formulas))
            for formula in formulas[:4]:
                page.test("bench", "math", math=formula.replace(" + ", "+"))
        else:
            text += "\n\n| Key | Value |\n|---|---|\n" + "\n".join(
                f"| {w} | {i} |" for i, w in enumerate(words[:9])
            )
            page.test("bench", "present", text=" ".join(words[9:14]), max_diffs=2)
            page.test("bench", "present", text=" ".join(words[200:205]))
            page.test("bench", "absent", text="a running head that is not there", max_diffs=2)
            page.test("bench", "order", before=" ".join(words[:4]), after=" ".join(words[90:94]), max_diffs=1)
            page.test("bench", "table", cell="3", left=words[3], up="2", top_heading="Value")
        (folder / "pdfs" / f"{page.name}.pdf").write_bytes(page.pdf())
        (folder / "engine" / f"{page.name}_pg1_repeat1.md").write_text(text, encoding="utf-8")
        tests += [json.dumps(row) + "\n" for _, row in page.tests]
    (folder / "bench.jsonl").write_text("".join(tests), encoding="utf-8")


def cpu_seconds(command: Sequence[str], folder: Path) -> float:
    """Processor time of all processes of a command; best of five."""
    best = float("inf")
    for _ in range(ROUNDS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, capture_output=True, cwd=folder, env=child_environment())
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        best = min(best, spent)
    return best


@pytest.mark.parametrize(
    ("math", "more", "limit"),
    [
        (False, (), MAX_TEXT_S),
        (True, ("--no-cache",), MAX_MATH_S),
        (True, ("--no-cache", "--math", "chromium"), MAX_CHROMIUM_S),
    ],
    ids=["text", "math", "math in Chromium"],
)
def test_a_bench_costs_little_processor_time(
    math: bool, more: tuple[str, ...], limit: float, tmp_path: Path
) -> None:
    write(tmp_path, math=math)
    own = cpu_seconds([sys.executable, "-m", "gravbench", "olmocr", "--data", ".", *more], tmp_path)
    print(f"gravbench {own:.2f} CPU seconds, at most {limit}")
    python = os.environ.get("GRAVBENCH_OLMOCR_PYTHON")
    if python is None or math:
        print("official runner: not measured")
    else:
        official = cpu_seconds([python, "-m", "olmocr.bench.benchmark", "--dir", "."], tmp_path)
        print(f"official runner {official:.2f} CPU seconds, {official / own:.2f} times as many")
    assert own <= limit
