"""The verb `olmocr`: parse, score, write, print."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from gravbench.olmocr.document import CandidateResult, Document

SHOWN_FAILURES = 20


class RulesName(StrEnum):
    """The states of the official rules, as on the command line."""

    RELEASE = "0.4.27"
    MAIN = "main-2026-03-25"


class MathName(StrEnum):
    """How equations are rendered."""

    KATEX = "katex"
    CHROMIUM = "chromium"


def olmocr(
    data: Annotated[
        Path, typer.Option("--data", help="olmOCR-Bench's folder (*.jsonl, pdfs/), or one of its test files.")
    ],
    predictions: Annotated[
        list[Path] | None,
        typer.Option(
            "--predictions",
            help="Folder of NAME_pg1_repeat1.md files; again for more. Default: all beside pdfs/.",
        ),
    ] = None,
    rules: Annotated[
        RulesName, typer.Option("--rules", help="State of the official rules.")
    ] = RulesName.RELEASE,
    math: Annotated[
        MathName, typer.Option("--math", help="Equations by KaTeX alone, or in the system's Chromium.")
    ] = MathName.KATEX,
    skip_baseline: Annotated[
        bool, typer.Option("--skip-baseline", help="Leave all tests of type baseline out.")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**32 - 1, help="Seed of the intervals.")] = 0,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", min=1, help="Processes at most (all CPUs); results do not depend on it."),
    ] = None,
    cache: Annotated[bool, typer.Option("--cache/--no-cache", help="Keep rendered equations.")] = True,
    out: Annotated[Path | None, typer.Option("--out", help="Write the full result here, as JSON.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result (without its tests) as one JSON document.")
    ] = False,
) -> None:
    """Score folders of Markdown files by the official olmOCR-Bench rules."""
    from gravbench.cli.output import print_json, write_output
    from gravbench.olmocr.document import ScoreOptions, encode, run_scoring
    from gravbench.olmocr.page import Rules
    from gravbench.olmocr.rendering import default_cache_file
    from gravbench.processes import usable_cpus

    if out is not None:
        write_output(out, None)
    options = ScoreOptions(
        data=data,
        predictions=tuple(predictions or ()),
        rules=Rules(rules.value),
        chromium=math is MathName.CHROMIUM,
        skip_baseline=skip_baseline,
        seed=seed,
        cache=default_cache_file() if cache else None,
        jobs=jobs or usable_cpus(),
    )
    document = run_scoring(options)
    if out is not None:
        write_output(out, encode(document))
    if as_json:
        short = [candidate.model_copy(update={"tests": []}) for candidate in document.candidates]
        print_json(encode(document.model_copy(update={"candidates": short})))
    else:
        print_report(document)


def print_report(document: Document) -> None:
    """A table of candidates, then failures and what a reader must know about each folder."""
    from rich.text import Text

    from gravbench.cli.output import print_tables

    rules = document.signature.split("|")[1].removeprefix("rules:")
    lines = [line for candidate in document.candidates for line in candidate_lines(candidate)]
    for each in document.differences:
        low, high = (100 * bound for bound in each.interval)
        change = f"{100 * each.overall:+.1f} points, 95% {low:+.1f} to {high:+.1f} (paired over PDFs)"
        lines.append(f"{each.second} against {each.first}: {change}")
    print_tables(
        Text(f"{document.label}, rules {rules}; pass rates in percent", style="bold"),
        _rates(document),
        *(Text(line, overflow="fold") for line in (*lines, document.signature)),
    )


def _rates(document: Document) -> Table:
    from rich.table import Table

    table = Table()
    table.add_column("", overflow="fold", min_width=27)
    for candidate in document.candidates:
        table.add_column(candidate.name, justify="right", overflow="fold")
    table.add_row("official overall, 95%", *map(_official, document.candidates))
    table.add_row(
        "overall, pages together, 95%",
        *(_with_interval(each.ours.overall, each.ours.interval) for each in document.candidates),
    )
    for name, total in document.categories.items():
        rates = (each.ours.categories[name].rate for each in document.candidates)
        table.add_row(f"{name} ({total})", *("-" if rate is None else f"{100 * rate:.1f}" for rate in rates))
    return table


def _with_interval(value: float | None, interval: tuple[float, float] | None) -> str:
    if value is None:
        return "not scored"
    return f"{100 * value:.1f}" + (
        f" ± {100 * (interval[1] - interval[0]) / 2:.1f}" if interval is not None else ""
    )


def _official(candidate: CandidateResult) -> str:
    official = candidate.official
    if official.status == "failed":
        return "FAILED (errors)"
    return _with_interval(official.overall, official.interval)


def candidate_lines(candidate: CandidateResult) -> list[str]:
    """Faults, what decides without being seen, and the first failed tests."""
    lines = [f"{candidate.name}: {candidate.ours.name}"]
    lines += [f"  no prediction of {name} at all" for name in candidate.pdfs_without_files]
    for fault in candidate.faults:
        where = f" ({fault.file})" if fault.file else ""
        lines.append(f"  {fault.pdf} page {fault.page}: {fault.fault}{where}; {fault.tests} tests")
    unscored: dict[str, int] = {}
    for test in candidate.tests:
        if test.unscored:
            unscored[test.unscored] = unscored.get(test.unscored, 0) + 1
    lines += [f"  {count} tests not scored: {reason}" for reason, count in unscored.items()]
    lines += [f"  {line}" for line in _notes(candidate)]
    failed = [test for test in candidate.tests if not test.passed and not test.error and not test.unscored]
    if failed:
        lines.append(
            f"  {len(failed)} failed tests" + (" (all with --out)" if len(failed) > SHOWN_FAILURES else "")
        )
    lines += [
        f"    {test.id} {test.type} {test.passes}/{test.repeats}: {test.why}: {test.detail}"
        for test in failed[:SHOWN_FAILURES]
    ]
    return lines


def _notes(candidate: CandidateResult) -> list[str]:
    notes = candidate.notes
    lines = [
        f"{len(names)} {label}, such as {names[0]}"
        for label, names in (
            ("empty files", notes.empty_files),
            ("files of blanks only", notes.near_empty_files),
            ("tests on a page shorter than their text", notes.tests_decided_by_short_pages),
        )
        if names
    ]
    for example, reason in list(notes.rejected_examples.items())[:1]:
        lines.append(f"{notes.rejected_equations} equations not rendered, such as {example[:60]!r}: {reason}")
    if notes.files_with_latex_tables:
        lines.append(f"{notes.files_with_latex_tables} files with LaTeX tables, which no table test reads")
    return lines
