"""`gravbench tune`: choose a strategy for this machine, show why, write the setting."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from gravbench.analysis.tuning import board_of, ranked, rate
from gravbench.arms import AR, MAX_BATCH
from gravbench.cli.output import print_json, print_tables, rich_table, say_error, write_output
from gravbench.cli.progress import make_progress
from gravbench.cli.run_command import MAX_BLOCK, parse_sizes
from gravbench.cli.run_loading import read_forward_costs
from gravbench.cli.verbs import Tune
from gravbench.decoding.setting import Setting, setting_json
from gravbench.errors import VerificationError
from gravbench.options import RunOptions
from gravbench.reporting.tables import Cell, arm, number, table
from gravbench.runner.engine import open_engine
from gravbench.runner.samples import open_suite_data
from gravbench.runner.tune import Measured, Tuning, measured_here
from gravbench.store.files import make_folder
from gravbench.suites.manifest import load_suite

SHOWN = 12
"""Strategies in the table."""


def tune(given: Tune) -> int:
    """Measure, choose, confirm, write; 0, or 1 when what was measured is not what was predicted."""
    options = _options(given)
    batches = parse_sizes("--batch-sizes", given.batch_sizes, most=MAX_BATCH)
    blocks = parse_sizes("--blocks", given.blocks, most=MAX_BLOCK)
    write_output(given.out, None)
    costs = read_forward_costs(given.forward_cost)
    suite, progress = load_suite(options.suite), make_progress(quiet=given.quiet)
    opened = open_suite_data(options, suite, note=progress.note)
    with ExitStack() as stack:
        folder = given.keep
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gravbench-tune-")))
        make_folder(folder, option="--keep")
        setting = Tuning(
            options=options,
            suite=suite,
            opened=opened,
            blocks=blocks,
            batches=batches,
            folder=folder,
            open_backend=open_engine,
            measure=lambda: (
                Measured(tables={1: costs})
                if costs is not None
                else measured_here(options, suite, batches, opened=open_engine)
            ),
            progress=progress,
            environ=os.environ,
        ).tune()
    write_output(given.out, setting_json(setting))
    if given.json:
        print_json(setting_json(setting))
    elif not given.quiet:
        print_tables(*_parts(setting, given.out))
    if setting.cautions:
        say_error(
            f"{given.out} is written, but {setting.cautions[0]}",
            "Tune again on a quiet machine; confirmed in the file has every strategy that was run.",
        )
        return VerificationError.exit_code
    return 0


def _options(given: Tune) -> RunOptions:
    asked = {
        name: getattr(given, name)
        for name in ("suite", "model", "backend", "device", "dtype", "threads", "limit")
    }
    known = {name: value for name, value in asked.items() if value is not None}
    return RunOptions(strategies=tuple(given.strategy or ()), **known)


def _parts(setting: Setting, out: Path) -> list[RenderableType]:
    """Candidates by predicted speed, what was confirmed, the plan, and the command that uses it."""
    board = board_of(setting.estimates, setting.batch)
    usual = rate(board[AR].values())
    tasks = tuple(board[AR])
    rows: list[tuple[str | Cell, ...]] = [
        (
            arm(name),
            number(sum(e.tokens for e in own.values()) / sum(e.cost for e in own.values())),
            *(number(own[task].cost_tpf) for task in tasks),
            number(rate(own.values()) / usual),
        )
        for name in ranked(board)[:SHOWN]
        for own in [board[name]]
    ]
    columns = ("strategy", "tokens for c(1)", *tasks, "predicted, over ar")
    parts: list[RenderableType] = [
        Text(f"{setting.suite}: {setting.n_samples} samples, batch size {setting.batch}", style="bold"),
        rich_table(table("candidates", columns, rows), caption=False),
    ]
    confirmed: list[tuple[str | Cell, ...]] = [
        (arm(one.arm), number(one.predicted), f"{one.measured:.2f} ({one.low:.2f} to {one.high:.2f})")
        for one in setting.confirmed
    ]
    if confirmed:
        columns = ("confirmed", "predicted, over ar", "measured, decoding")
        parts.append(rich_table(table("confirmed", columns, confirmed), caption=False))
    plan = ", ".join(f"{task} {name}" for task, name in setting.plan.items())
    batch = f" --batch-size {setting.batch}" if setting.batch > 1 else ""
    use = f"gravbench run --suite crops-mini --strategy ar --strategy tuned:setting={out}{batch}"
    return [*parts, Text(f"plan: {plan}"), Text(f"written: {out}"), Text(f"use it: {use}")]
