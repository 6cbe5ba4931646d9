"""What a page of OmniDocBench costs, what a whole benchmark does, and the official program beside it.

`GRAVBENCH_OFFICIAL=DIR` names a checkout of the official evaluation code with its environment (its
interpreter in `GRAVBENCH_OFFICIAL_PYTHON`); without it those ratios are not measured.
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from omnidoc_support import block, page_object, write_benchmark
from run_support import child_environment

from gravbench.omnidocbench.ground_truth import read_page
from gravbench.omnidocbench.page_scorer import PageScorer

pytestmark = pytest.mark.bench

WORDS = [
    "amber",
    "river",
    "stone",
    "lantern",
    "window",
    "compute",
    "matrix",
    "of",
    "the",
    "and",
    "north",
    "with",
]
MAX_PAGE_MS = 12.0
WHOLE = 1651
MAX_WHOLE_S, MAX_WHOLE_MB = 12.0, 500.0
OFFICIAL_PAGES = 198
RATIOS = {"default": 25.0, "in process": 6.0}
"""How many times cheaper than the official program: as it comes, and with its conversions in process."""


def made_page(number: int) -> tuple[dict[str, Any], str]:
    """A page of about 3,000 characters (paragraphs, formulas, a table) and a slightly wrong prediction."""
    rng = random.Random(number)

    def words(count: int) -> str:
        return " ".join(
            rng.choice(WORDS) + rng.choice(("", "", str(rng.randrange(99)))) for _ in range(count)
        )

    blocks, markdown = [], []
    for order in range(1, 19):
        if order % 6 == 0:
            latex = rf"\frac{{{rng.choice('abc')}_{{{order}}}}}{{x^{{{number % 97}}}}}+\sqrt{{y}}"
            blocks.append(block("equation_isolated", f"\\[{latex}\\]", order))
            markdown.append(f"$$\n{latex.replace('y', 'z') if rng.random() < 0.3 else latex}\n$$")
        elif order == 9:
            rows = "".join(f"<tr>{''.join(f'<td>{words(2)}</td>' for _ in range(4))}</tr>" for _ in range(5))
            blocks.append(block("table", f"<table>{rows}</table>", order))
            markdown.append(f"<table>{rows.replace('amber', 'umber')}</table>")
        else:
            text = words(rng.randrange(8, 60)) + rf" $\alpha_{{{order}}}$"
            blocks.append(block("text_block", text, order))
            markdown.append(text if rng.random() < 0.8 else text.replace("river", "rivet"))
    return page_object(blocks, f"page_{number:04d}.png", language="english"), "\n\n".join(markdown)


def benchmark_folder(folder: Path, pages: int) -> tuple[Path, Path]:
    made = [made_page(number) for number in range(pages)]
    return write_benchmark(
        folder, [page for page, _ in made], {f"page_{n:04d}.md": text for n, (_, text) in enumerate(made)}
    )


def run_omnidoc(gt: Path, pred: Path, out: Path, *options: str) -> tuple[float, float]:
    """Wall and CPU seconds of the command, its workers included."""
    command = [
        sys.executable,
        "-m",
        "gravbench",
        "omnidoc",
        "--gt",
        str(gt),
        "--predictions",
        str(pred),
        "--no-cdm",
    ]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [*command, "--out", str(out), *options],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=child_environment(),
    )
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_a_page_costs_at_most_twelve_milliseconds_of_cpu() -> None:
    made = [made_page(number) for number in range(12)]
    pages = [(read_page(page, 0, source="made"), text) for page, text in made]

    def cpu_ms() -> float:
        scorer, began = PageScorer(), time.process_time()
        for page, text in pages:
            scorer.score(page, text)
        return 1000 * (time.process_time() - began) / len(pages)

    assert min(cpu_ms() for _ in range(6)) <= MAX_PAGE_MS


def test_a_whole_benchmark_takes_seconds_and_has_the_same_bytes_for_any_jobs(tmp_path: Path) -> None:
    gt, pred = benchmark_folder(tmp_path, WHOLE)
    wall, cpu = run_omnidoc(gt, pred, tmp_path / "all.json")
    print(f"{WHOLE} pages: {wall:.1f} s, {cpu:.1f} s of CPU")
    peak_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    run_omnidoc(gt, pred, tmp_path / "one.json", "--jobs", "1")
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "all.json").read_bytes()
    assert peak_mb <= MAX_WHOLE_MB
    if len(os.sched_getaffinity(0)) >= 2:
        assert wall <= MAX_WHOLE_S


def official_cpu_s(checkout: Path, gt: Path, pred: Path, folder: Path, **environment: str) -> float:
    """CPU seconds of the official end-to-end evaluation with one worker, CDM apart."""
    metrics = {
        "text_block": {"metric": ["Edit_dist"]},
        "display_formula": {"metric": ["Edit_dist"]},
        "table": {"metric": ["TEDS", "Edit_dist"]},
        "reading_order": {"metric": ["Edit_dist"]},
    }
    dataset = {
        "dataset_name": "end2end_dataset",
        "ground_truth": {"data_path": str(gt)},
        "prediction": {"data_path": str(pred)},
        "match_method": "quick_match",
    }
    config = folder / "end2end.yaml"  # JSON is YAML
    config.write_text(json.dumps({"end2end_eval": {"metrics": metrics, "dataset": dataset}}))
    workers = {f"OMNIDOCBENCH_{stage}_WORKERS": "1" for stage in ("MATCH", "TEDS", "CDM")}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [
            os.environ.get("GRAVBENCH_OFFICIAL_PYTHON", "python3"),
            "pdf_validation.py",
            "--config",
            str(config),
        ],
        cwd=checkout,
        check=True,
        env={**os.environ, **workers, **environment},
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.skipif(
    "GRAVBENCH_OFFICIAL" not in os.environ, reason="not measured: GRAVBENCH_OFFICIAL is not set"
)
@pytest.mark.parametrize("setting", RATIOS)
def test_the_official_program_costs_many_times_as_much(setting: str, tmp_path: Path) -> None:
    gt, pred = benchmark_folder(tmp_path, OFFICIAL_PAGES)
    _, ours = run_omnidoc(gt, pred, tmp_path / "out.json", "--jobs", "1")
    in_process = {"OMNIDOCBENCH_LATEX_TO_TEXT_TIMEOUT_SEC": "0"} if setting == "in process" else {}
    theirs = official_cpu_s(Path(os.environ["GRAVBENCH_OFFICIAL"]), gt, pred, tmp_path, **in_process)
    print(f"official {setting}: {theirs:.1f} s of CPU, here {ours:.2f} s: {theirs / ours:.1f} times")
    assert theirs / ours >= RATIOS[setting]
