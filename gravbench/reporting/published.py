"""Published figures beside ours. Names hide different definitions, so each stands with its own."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Literal

from gravbench.analysis.loaded import run_data
from gravbench.omnidocbench.metric_table import OVERALL
from gravbench.records import Record
from gravbench.reporting.charts import Named
from gravbench.reporting.tables import NONE, Cell, Table, interval, number, table

OursKey = Literal[
    "decode", "request", "page", "tpf_all", "accepted_draft", "tau_round", "tau_bonus", "identical", "overall"
]


BENCHMARK_PAGES = 1651
"""Pages of OmniDocBench v1.6, which every published Overall in the list is over."""


class PublishedFigure(Record):
    """One figure as its source prints it. `evidence`: P primary, S secondary, A abstract or README."""

    system: str
    source: str
    value: str
    definition: str
    setting: str
    evidence: Literal["P", "S", "A"]
    ours: OursKey | None = None


def published_figures() -> tuple[PublishedFigure, ...]:
    """The shipped list, in its order."""
    with (Path(__file__).parent / "published.toml").open("rb") as file:
        return tuple(PublishedFigure.model_validate(row) for row in tomllib.load(file)["figure"])


def published_table(named: Named | None) -> Table:
    """The list with one strategy's figures of the same definition beside it.

    The caption of a partial or changed copy says what ours were measured on.
    """
    label = named.label if named is not None else "no strategy"
    data = None if named is None else run_data(named.run.protocol)
    caption = "Published figures beside ours"
    if data is not None and not data.whole:
        caption += f"; ours on: {data.label}"
    rows: list[tuple[str | Cell, ...]] = [
        (f.system, f.value, our_figure(named, f.ours), f.definition, f.setting, f"{f.source} [{f.evidence}]")
        for f in published_figures()
    ]
    columns = ("system", "published", f"ours: {label}", "definition", "stack, data, hardware", "source")
    return table(caption, columns, rows, left=frozenset(range(6)))


def our_figure(named: Named | None, key: OursKey | None) -> str:
    """Our figure of that definition; a dash where the run does not measure it.

    `page` needs whole pages and `overall` OmniDocBench's own composite, over all of its pages: crops have
    neither, and of less than the whole benchmark the reason stands in place of the figure.
    """
    if named is None or key is None:
        return NONE
    arm, counters = named.arm, named.part.counters
    if key in {"decode", "request"}:
        return interval(arm.decode if key == "decode" else arm.request, "×")
    if key == "page":
        return interval(arm.page, "×")
    if key == "identical":
        share = arm.identity.share if arm.identity is not None else None
        return NONE if share is None else f"{share:.1%} (token ids)"
    if key == "overall":
        return _overall(named)
    if not counters.draft_offered:
        return NONE
    if key == "tau_bonus":
        return number(None if counters.accepted_draft is None else counters.accepted_draft + 1)
    return interval(arm.counters.get(key))


def _overall(named: Named) -> str:
    level = named.part.levels.get(OVERALL)
    if level is None or not str(named.run.identity.get("suite", "")).startswith("omnidoc"):
        return NONE
    data = run_data(named.run.protocol)
    if data is None:
        return f"{NONE} (the run does not say which pages it read)"
    if not data.whole:
        return f"{NONE} (not comparable: {data.label})"
    if data.pages_in_run != BENCHMARK_PAGES:
        return f"{NONE} (not comparable: {data.pages_in_run or 0:,} of {BENCHMARK_PAGES:,} pages)"
    return interval(level.points)
