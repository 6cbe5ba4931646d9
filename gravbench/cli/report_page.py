"""`--report FILE` of verbs that end with results to look at."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gravbench.cli.output import print_line
from gravbench.errors import UsageError

RESAMPLES = 10_000


def check_page(out: Path | None) -> None:
    """`UsageError` before any work where the page could not be written."""
    if out is not None and (out.is_dir() or out.suffix.lower() not in (".html", ".htm")):
        found = "is a folder" if out.is_dir() else f"ends in {out.suffix or 'nothing'!r}"
        raise UsageError(f"--report {out}: {found}, expected an .html file", hint="--report report.html")


def write_page(
    runs: tuple[Path, ...],
    out: Path,
    *,
    command: str,
    seed: int,
    say: bool,
    resamples: int = RESAMPLES,
    referee: str | None = None,
    forward_cost: Path | None = None,
    data: Path | None = None,
    arms: Sequence[tuple[str, str]] | None = None,
) -> None:
    """Write the report of `runs`; say where it is."""
    from gravbench.cli.report_command import write_report

    write_report(
        runs,
        out=out,
        resamples=resamples,
        seed=seed,
        referee=referee,
        forward_cost=forward_cost,
        data=data,
        arms=arms,
        command=command,
    )
    if say:
        print_line(f"written: {out} ({out.stat().st_size:,} bytes)")
