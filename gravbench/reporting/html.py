"""A report document to one HTML string that asks nothing of the network.

Everything a model or a file said enters as text: through autoescape, or through the script's textContent.
The content security policy allows the one script and the one stylesheet by hash, and pictures as data.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from pydantic import JsonValue

from gravbench.analysis.groups import WordOrder
from gravbench.analysis.quality import label_of
from gravbench.reporting import acceptance_charts, breakdown, charts, speed_charts
from gravbench.reporting.arms_table import arms_table
from gravbench.reporting.charts import Named
from gravbench.reporting.definitions import definitions, measured_how, published_table
from gravbench.reporting.detail_charts import detail_charts
from gravbench.reporting.document import PairPart, ReportDocument, RunPart
from gravbench.reporting.gallery_pack import embedded, pack_gallery, packed, visible
from gravbench.reporting.gates import shown_gates
from gravbench.reporting.tables import Table, table
from gravbench.reporting.verdicts import (
    conditions,
    difference_kinds,
    headline,
    tiles,
    unlike_runs,
)
from gravbench.store.schema import canonical_json

TEMPLATES = Path(__file__).parent / "templates"
PARTS = ("report.css", "report.js", "gallery.js")
DETAILED_ARMS = 3
"""Strategies with charts of their own (waterfall, scatter, drift); the others are in the shared charts."""

_GAP = re.compile(r">\s*\n\s*<")

IN_SHORT = frozenset({"suite", "samples", "model", "engine", "device", "processor"})
"""Conditions that stand under the first chart; all of them are one fold away."""
HASHES = ("suite_sha", "samples_sha", "model_digest", "scorer")


INLINE_CELLS = 850
"""Cells that may stand in the page from the start, all tables together; the rest is packed."""
PRINTED_ROWS = 60
"""Longer tables are a line in print: nobody reads 1,651 rows on paper."""
FOLDED_CELLS = 30
"""Of a table that is folded away anyway."""


@dataclass(slots=True)
class Packs:
    """Tables of one page that are built on demand, by key, in the order they were met."""

    tables: dict[str, str] = field(default_factory=dict)
    printed: set[str] = field(default_factory=set)
    """Keys of the tables that are small enough to be printed with the page: plain JSON."""
    inline_cells: int = 0

    def takes(self, given: Table, *, folded: bool) -> bool:
        """Whether a table is packed; one that is not uses up the page's room."""
        if self.inline_cells + given.size > INLINE_CELLS or (folded and given.size > FOLDED_CELLS):
            return True
        self.inline_cells += given.size
        return False

    def key(self, given: Table) -> str:
        """Pack a table; returns the id of its data."""
        name = f"pack-{len(self.tables)}"
        value = {
            "columns": given.columns,
            "left": sorted(given.left),
            "tints": [[cell.css or "" for cell in row] for row in given.rows]
            if any(cell.css for row in given.rows for cell in row)
            else None,
            "caption": visible(given.caption),
            "rows": [[visible(cell.text) for cell in row] for row in given.rows],
        }
        if len(given.rows) <= PRINTED_ROWS:
            self.printed.add(name)
            self.tables[name] = embedded(value)
        else:
            self.tables[name] = packed(value)
        return name


def render_report(document: ReportDocument) -> str:
    """The whole page; equal documents give equal text."""
    style, script, gallery = (Markup((TEMPLATES / name).read_text("utf-8")) for name in PARTS)
    script += gallery
    packs = Packs()
    detailed = [a for a in charts.best_first(document) if a.arm.decode is not None][:DETAILED_ARMS]
    best = next(iter(charts.best_first(document)), None)
    speed = speed_charts.speed_charts(document)
    lead = [chart for chart in speed[:1] if chart.svg]
    body = (
        page_environment()
        .get_template("report.html.j2")
        .render(
            document=document,
            style=style,
            script=script,
            policy=content_policy(style, script),
            headline=headline(document),
            unlike=unlike_runs(document),
            gates=shown_gates(document),
            tiles=tiles(document),
            arms=arms_table(document),
            conditions=[(run.name, conditions(run)) for run in document.runs],
            measured_how=measured_how(document),
            tables=_tables(document, detailed, best),
            shift=breakdown.SHIFT,
            comparisons=[(pair, _pair_tables(pair)) for pair in document.comparisons],
            difference_kinds=difference_kinds,
            lead_charts=lead,
            speed_charts=speed[len(lead) :],
            detail_charts=detail_charts(detailed),
            IN_SHORT=IN_SHORT,
            acceptance_charts=acceptance_charts.acceptance_charts(document),
            quality_charts=acceptance_charts.quality_charts(document),
            run_facts=[(run, run_tables(run)) for run in document.runs],
            gallery=pack_gallery(document),
            definitions=definitions(document),
            packs=packs,
        )
    )
    return _without_gaps(body)


def page_environment() -> Environment:
    """Templates that escape what they print and refuse undefined names."""
    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def content_policy(style: str, script: str | None = None) -> str:
    """Nothing but this script, if there is one, this stylesheet and pictures from data addresses."""
    scripts = "" if script is None else f"script-src '{_hash(script)}'; "
    return (
        f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; {scripts}"
        "base-uri 'none'; form-action 'none'"
    )


def run_tables(run: RunPart) -> list[Table]:
    """Settings, hashes, machine and packages of a run, as tables of two columns."""
    packages = run.environment.get("packages")
    machine = {k: v for k, v in run.environment.items() if k != "packages"}
    hashes = {"identity": run.identity_sha, **{k: run.identity[k] for k in HASHES if k in run.identity}}
    settings = {k: v for k, v in run.identity.items() if k not in HASHES}
    model = {k: v for k, v in run.model.items() if k not in {"model_digest", "warnings"}}
    groups: list[tuple[str, dict[str, JsonValue]]] = [
        ("Settings", settings),
        ("Protocol", run.protocol),
        ("Model", model),
        ("Hashes", hashes),
        ("Metric signatures", dict(run.signatures)),
        ("Machine", machine),
        ("Packages", packages if isinstance(packages, dict) else {}),
    ]
    return [
        table(
            f"{name}: {run.name}",
            ("field", "value"),
            [(key, _said(value)) for key, value in sorted(values.items())],
            left=frozenset({0, 1}),
        )
        for name, values in groups
        if values
    ]


def _tables(document: ReportDocument, detailed: list[Named], best: Named | None) -> dict[str, Any]:
    """Tables by name; those without a row are `None`."""
    judged = charts.best_first(document)
    audits = _there(
        breakdown.audit_table(f"{a.label} against {a.against}", a.arm.identity)
        for a in judged
        if a.arm.identity is not None
    )
    null = document.null and breakdown.audit_table("ar against ar", document.null.audit)
    named = charts.named_arms(document)
    scored = [(a.label, a.arm, a.part.levels) for a in named]
    return {
        "speed": breakdown.speed_table((a.label, a.arm) for a in judged),
        "cost": breakdown.cost_table((a.label, a.arm) for a in judged),
        "counters": breakdown.counter_table((a.label, a.arm, a.part.counters) for a in named),
        "quality": breakdown.quality_table(scored),
        "equal": breakdown.equal_quality(scored),
        "changed": breakdown.quality_table(row for row in scored if breakdown.changes(row[1])),
        "words": breakdown.word_order_table(words) if (words := _words(named)) else None,
        "map": None if best is None else speed_charts.speed_map(best.label, best.arm, best.part.pairs),
        "heat": [
            t for a in (detailed or judged[:1]) if (t := breakdown.group_table(a.label, a.arm)) is not None
        ],
        "outliers": [t for a in detailed[:1] if (t := breakdown.outlier_table(a.label, a.arm)) is not None],
        "audits": [*audits, *([null] if null else [])],
        "published": published_table(best),
    }


def _words(named: Iterable[Named]) -> list[tuple[str, str, WordOrder]]:
    """What each strategy made of words in order and shuffled; nothing for suites without such pairs."""
    return [
        (a.label, label_of(metric), one)
        for a in named
        for metric, one in (a.run.analysis.word_order or {}).get(a.part.arm, {}).items()
    ]


def _pair_tables(pair: PairPart) -> list[Table]:
    """Quality and ratios of a later run held against the first."""
    quality = [(breakdown.pair_name(a), a.quality) for a in pair.arms]
    names = {"base": pair.base, "own": pair.own}
    found = (breakdown.difference_table(quality, **names), breakdown.ratio_table(pair.arms, **names))
    return _there(found)


def _there(tables: Iterable[Table | None]) -> list[Table]:
    return [t for t in tables if t is not None]


def _without_gaps(page: str) -> str:
    """No line breaks between tags: each would be a node. The stylesheet and the script keep theirs.

    Inserted text holds no `<` or `>` of its own, so only the template's line breaks match.
    """
    head, style_end, rest = page.partition("</style>")
    body, script, tail = rest.rpartition("<script>")
    return head + style_end + _GAP.sub("><", body) + script + tail + "\n"


def _finalize(value: Any) -> Any:
    """What a template prints: `Markup` as it is, text made visible (and then escaped)."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _said(value: JsonValue) -> str:
    return value if isinstance(value, str) else canonical_json(value).decode("utf-8")
