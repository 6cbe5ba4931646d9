"""`gravbench run`, `sweep`, `score` and `export`: a run or a curve of runs in one interleaved session."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from gravbench.analysis.curve import Curve, curve_of, swept_strategies
from gravbench.analysis.summary import Summary, summary_json
from gravbench.arms import MAX_BATCH, is_ar
from gravbench.cli.output import print_json, print_line, print_tables, rich_table, say_error, say_warning
from gravbench.cli.progress import duration, make_progress
from gravbench.cli.report_page import check_page, write_page
from gravbench.cli.summary_table import data_parts, lossy_line, summary_parts, timed_name
from gravbench.cli.verbs import Export, Merge, Run, Score, Sweep
from gravbench.errors import NotComparableError, UsageError
from gravbench.options import RunOptions
from gravbench.reporting.breakdown import tie_sentence, ties_of
from gravbench.reporting.definitions import counter_words
from gravbench.reporting.tables import NONE, Cell, Table, arm, interval, number, table
from gravbench.runner.engine import as_arms, open_engine
from gravbench.runner.export import FORMATS, clockless_lines
from gravbench.runner.forecast import Forecast, Seconds, forecast
from gravbench.runner.merge import finish_merge, merge_shards, read_shards
from gravbench.runner.run import Outcome, rescore, run
from gravbench.runner.samples import open_suite_data, samples_of_run
from gravbench.store.files import make_folder, write_atomic
from gravbench.store.rundir import RunDirectory, finished_pairs
from gravbench.store.schema import canonical_json
from gravbench.suites.manifest import load_suite

if TYPE_CHECKING:
    from gravbench.omnidocbench.cdm.rows import Cdm


def run_suite(given: Run) -> int:
    """Run, print, write the report asked for, and return 0, or 3 when more samples failed than allowed."""
    asked = as_arms(given.options)
    if given.dry_run:
        return _plan(asked, given)
    check_page(given.report)
    outcome = run_plan(asked, quiet=given.quiet)
    summary = outcome.summary
    _tell(given, outcome, lambda: summary_json(summary), lambda: summary_parts(summary))
    if given.report is not None:
        say = not (given.json or given.quiet)
        write_page((outcome.run_dir,), given.report, command=given.command, seed=asked.seed, say=say)
    return exit_code(outcome, asked)


def _tell(
    given: Run | Sweep,
    outcome: Outcome,
    document: Callable[[], bytes],
    parts: Callable[[], Iterable[RenderableType]],
) -> None:
    """One JSON document, the run folder alone, or tables. Warnings stand in the tables, else on stderr."""
    if not (given.json or given.quiet):
        print_tables(*parts())
        return
    for warning in outcome.summary.warnings:
        say_warning(warning)
    if given.json:
        print_json(document())
    else:
        print_line(str(outcome.run_dir))


def _plan(asked: RunOptions, given: Run) -> int:
    """Say what the run would be; 0. A few samples are answered, and nothing is kept of them."""
    suite = load_suite(asked.suite)
    progress = make_progress(quiet=given.quiet)
    opened = open_suite_data(asked, suite, note=progress.note)
    found = forecast(asked, suite, opened, open_backend=open_engine, progress=progress, environ=os.environ)
    if given.json:
        print_json(canonical_json({"schema": "gravbench.forecast/1", **found.model_dump(mode="json")}))
    else:
        for line in _forecast_lines(found):
            print_line(line)
    return 0


def _forecast_lines(found: Forecast) -> list[str]:
    samples, count = (
        ", ".join(f"{n:,} {task}" for task, n in found.samples.items()),
        sum(found.samples.values()),
    )
    budgets = ", ".join(f"{task} {budget:,}" for task, budget in found.max_new_tokens.items())
    repeats = f", {found.repeats} times each" if found.repeats > 1 else ""
    failed = f"; {found.failed} of their answers failed" if found.failed else ""
    return [
        f"{found.suite}: {count:,} samples ({samples}){repeats}, {found.answers:,} answers",
        f"budgets: {budgets} tokens",
        *(f"{arm}: {_time_words(own)}" for arm, own in found.by_arm.items()),
        f"time: {_time_words(found.seconds)}, without loading and scoring",
        f"disk: about {found.disk_bytes / 1e6:,.1f} MB",
        f"measured on {found.probed} samples, of which nothing is kept{failed}",
    ]


def _time_words(own: Seconds) -> str:
    return f"about {duration(own.value)} ({duration(own.low)} to {duration(own.high)})"


def run_plan(options: RunOptions, *, quiet: bool) -> Outcome:
    """Load the suite and its data, then run or continue the plan; progress goes to stderr."""
    suite = load_suite(options.suite)
    progress = make_progress(quiet=quiet)
    opened = open_suite_data(options, suite, note=progress.note)
    return run(
        options,
        suite,
        opened.samples,
        open_backend=open_engine,
        progress=progress,
        environ=os.environ,
        opened=opened,
    )


def exit_code(outcome: Outcome, options: RunOptions) -> int:
    """0, or 3 with its error line when more samples failed than --max-errors allows."""
    if not outcome.too_many_errors:
        return 0
    first = next(iter((outcome.summary.failures or {}).items()), None)
    named = f" The first: {': '.join(first)}" if first else ""
    say_error(
        f"{outcome.summary.failed_samples} of {outcome.summary.n_samples} samples failed, "
        f"more than --max-errors {options.max_errors} allows",
        f"Results are in {outcome.run_dir}; `error` in gen/*.jsonl says why each one failed. "
        f"When the cause is mended, the same command with --retry-failed decodes them again.{named}",
    )
    return NotComparableError.exit_code


def merge_runs(given: Merge) -> int:
    """Check the shards, write the whole run, score what no shard scored, print the summary; 0."""
    now = datetime.now(UTC)
    run, pairs = merge_shards(read_shards(given.shards), given.out, now=now)
    summary = score_again(run.path, suite=None, data=given.data, reuse=True)
    finish_merge(run, pairs, now=now)
    if given.json:
        print_json(summary_json(summary))
    else:
        print_tables(*summary_parts(summary))
    return 0


def score_run(given: Score) -> int:
    """Score again and print the summary. `suite` and `data` override where the manifest says they lie."""
    summary = score_again(given.run, suite=given.suite, data=given.data)
    if given.json:
        print_json(summary_json(summary))
    else:
        print_tables(*summary_parts(summary))
    return 0


def score_again(run_dir: Path, *, suite: str | None, data: Path | None, reuse: bool = False) -> Summary:
    """Score a run with its own suite, or with `suite`, on its own pages, or on those of `data`.

    `reuse` keeps the scores that it has.
    """
    run = RunDirectory(run_dir)
    manifest = run.manifest()
    loaded = load_suite(suite or str(manifest.protocol["suite_source"]))
    return rescore(
        run_dir, loaded, samples_of_run(manifest, loaded, run.generations(), data=data), reuse=reuse
    )


def export_run(given: Export) -> int:
    """Write the answers of a run in a format of other tools, and say where; or its clockless lines."""
    if given.clockless:
        return _export_clockless(RunDirectory(given.run), given.out)
    format, out = given.format, given.out
    if format is None:
        raise UsageError("export needs to know what to write", hint="Add --format jsonl or --clockless.")
    if format not in FORMATS:
        raise UsageError(f"--format {format!r}: unknown", hint=f"One of {', '.join(FORMATS)}.")
    if out is None:
        raise UsageError(f"--format {format}: nowhere to write", hint="Name a place with --out.")
    run = RunDirectory(given.run)
    written = FORMATS[format](run, out)
    if format == "omnidocbench":
        written += _official_results(run, written, out / "result")
    for place in written:
        print_line(f"written: {place}")
    return 0


def _official_results(run: RunDirectory, folders: Sequence[Path], result: Path) -> list[Path]:
    """The result files of the official program for each arm, by its rules; nothing where the pages of the run
    are not OmniDocBench's, as its annotation file says."""
    from gravbench.cli.omnidoc_output import write_tables
    from gravbench.cli.omnidoc_report import ScoreOptions, run_scoring

    data = run.manifest().protocol.get("data")
    folder = Path(str(data.get("folder"))) if isinstance(data, dict) else None
    truth = None if folder is None else folder / "OmniDocBench.json"
    if truth is None or not truth.is_file():
        raise NotComparableError(
            f"{run.path}: {truth or 'OmniDocBench.json'} is not here, and results need it",
            hint="The Markdown is written; score it with gravbench omnidoc --gt FILE --official DIR.",
        )
    names = sorted({f"{escape(entry.sample_id)}.*" for entry in run.manifest().plan})
    for markdown in folders:
        options = ScoreOptions(truth, markdown, 1, names)
        write_tables(
            run_scoring(options, cdm=_cdm),
            by=(),
            markdown=None,
            csv=None,
            official=result,
            name=markdown.name,
        )
    return [result]


def _cdm() -> Cdm:
    from gravbench.omnidocbench.cdm.rows import find_cdm
    from gravbench.omnidocbench.result_cache import default_cache_dir

    return find_cdm(default_cache_dir(), workers=1)


def _export_clockless(run: RunDirectory, out: Path | None) -> int:
    """Write the clockless lines of a finished, scored run to `out` or stdout."""
    manifest = run.manifest()
    pairs = finished_pairs(run, manifest)
    scores = run.scores(manifest.identity.scorer)
    scored = {(score.sample_id, score.rep, score.arm) for score in scores}
    unscored = [
        record
        for arms in pairs.values()
        for record in arms.values()
        if (record.sample_id, record.rep, record.arm) not in scored
    ]
    if unscored:
        raise NotComparableError(
            f"{run.path}: {len(unscored)} predictions have no score, the first is of {unscored[0].sample_id}",
            hint=f"Run `gravbench score {run.path}` first.",
        )
    data = b"".join(clockless_lines(manifest, pairs, scores))
    if out is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    else:
        make_folder(out.parent)
        write_atomic(out, data)
    return 0


MAX_BLOCK = 4096
_BATCHES = "Speedups are over ar at the same batch size; ar:batch=N over ar is the gain of batching."


def sweep(given: Sweep) -> int:
    """Run all arms interleaved, print the curve; 3 when more samples failed than allowed."""
    strategies = swept_strategies(
        vary=tuple(given.vary or ("selfspec",)),
        blocks=parse_sizes("--blocks", given.blocks, most=MAX_BLOCK),
        batches=parse_sizes("--batch-sizes", given.batch_sizes, most=MAX_BATCH),
        strategies=given.options.strategies,
    )
    asked = as_arms(given.options.but(strategies=strategies))
    outcome = run_plan(asked, quiet=given.quiet)
    curve = curve_of(outcome.summary)
    document = curve.model_dump(mode="json", by_alias=True, exclude_none=True)
    _tell(given, outcome, lambda: canonical_json(document), lambda: curve_parts(curve))
    return exit_code(outcome, asked)


def parse_sizes(option: str, text: str, *, most: int) -> tuple[int, ...]:
    """`4,8,16` -> sizes in the order given, none twice; `UsageError` unless all are from 1 to `most`."""
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"[0-9]{1,4}", part) and 1 <= int(part) <= most for part in parts):
        raise UsageError(f"{option}: '{text}'", hint=f"Sizes from 1 to {most}, for example 4,8,16.")
    return tuple(dict.fromkeys(map(int, parts)))


def curve_parts(curve: Curve) -> list[RenderableType]:
    """Title, one row a strategy, who ties with the fastest, warnings, folder."""
    title = f"{curve.suite}: {curve.n_samples} samples, {len(curve.points)} interleaved arms"
    parts: list[RenderableType] = [Text(title, style="bold"), *data_parts(curve.data)]
    parts.append(rich_table(_points(curve), caption=False))
    parts += [lossy_line(p.strategy, p.speed_base, p.quality_difference, {}) for p in curve.points if p.lossy]
    batched = any(p.batch > 1 for p in curve.points)
    names = ("accepted_draft", "tau_round", "tpf_all", *(("requests_per_forward",) if batched else ()))
    parts.append(Text(f"{counter_words(*names)} {_BATCHES if batched else 'Speedups are over ar.'}"))
    drafting = [
        (p.strategy, p.decode) for p in curve.points if p.decode is not None and not is_ar(p.strategy)
    ]
    if drafting:
        drafting.sort(key=lambda named: -named[1].value)
        best, fastest = drafting[0]
        ties = ties_of(drafting)
        said = tie_sentence(best, ties) if ties else ""
        parts.append(Text(f"fastest in decoding: {best}, {interval(fastest, 'x')} over ar. {said}".rstrip()))
    parts += [Text(f"warning: {warning}", style="yellow") for warning in curve.warnings]
    return [*parts, Text(f"run folder: {curve.run_dir}")]


def _points(curve: Curve) -> Table:
    on_pages = any(p.page is not None for p in curve.points)
    batched = any(p.batch > 1 for p in curve.points)
    columns = (
        "strategy",
        *(("requests_per_forward",) if batched else ()),
        "accepted_draft",
        "tau_round",
        "tpf_all",
        "decode speedup",
        "page speedup" if on_pages else "request speedup",
        "same tokens",
    )
    rows: list[tuple[str | Cell, ...]] = [
        (
            arm(timed_name(p.strategy, p.speed_base)),
            *((number(p.requests_per_forward),) if batched else ()),
            *map(number, (p.accepted_draft, p.tau_round, p.tpf_all)),
            interval(p.decode, "×"),
            interval(p.page if on_pages else p.request, "×"),
            "lossy" if p.lossy else NONE if (i := p.identical_to_ar) is None else f"{i.n}/{i.of}",
        )
        for p in curve.points
    ]
    return table("curve", columns, rows)
