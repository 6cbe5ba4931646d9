"""Tables that people read of a result: by attribute, page by page, and one row for a leaderboard.

Everything is taken from the JSON document of a result, so a stored result gives the same tables.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gravbench.errors import UsageError
from gravbench.omnidocbench.document import SUMMARY_METRICS
from gravbench.omnidocbench.page_metrics import METRICS

PAGE_COLUMNS = (
    ("text edit", "text_block", "Edit_dist"),
    ("formula edit", "display_formula", "Edit_dist"),
    ("CDM", "display_formula", "CDM"),
    ("TEDS", "table", "TEDS"),
    ("TEDS-S", "table", "TEDS_structure_only"),
    ("order edit", "reading_order", "Edit_dist"),
)
"""Heading, element, official metric; values on the scale 0..1."""
_ELEMENT_NAMES = {"text_block": "text blocks", "display_formula": "formulas", "table": "tables"}


Cell = str | int | float | None


@dataclass(frozen=True, slots=True)
class ResultTable:
    """A title, headings, and rows; `None` where there is nothing of a kind."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    @property
    def text(self) -> list[list[str]]:
        """The rows as people read them: four decimals, a dash for nothing."""
        return [[_shown(cell) for cell in row] for row in self.rows]


def attributes_of_result(document: Mapping[str, Any]) -> list[str]:
    """Names that `tables_by` takes: page attributes, then attributes of elements."""
    names = dict.fromkeys(document["labels"])
    for element in _ELEMENT_NAMES:
        names |= dict.fromkeys(label.partition(": ")[0] for label in _group_labels(document, element))
    return list(names)


def tables_by(document: Mapping[str, Any], attribute: str) -> list[ResultTable]:
    """Means over the pages, or over the elements, of each value of an attribute."""
    tables = [table for table in _tables_by(document, attribute) if table.rows]
    if not tables:
        known = ", ".join(attributes_of_result(document)) or "none"
        raise UsageError(
            f"--by {attribute}: no page and no element has this attribute",
            hint=f"Attributes of this ground truth: {known}.",
        )
    return tables


def _tables_by(document: Mapping[str, Any], attribute: str) -> Iterator[ResultTable]:
    labels: Mapping[str, int] = document["labels"].get(attribute, {})
    yield ResultTable(
        f"pages by {attribute}",
        (attribute, "pages", *(heading for heading, _, _ in PAGE_COLUMNS)),
        tuple(
            (
                label.removeprefix(f"{attribute}: "),
                pages,
                *(_page_mean(document, element, metric, label) for _, element, metric in PAGE_COLUMNS),
            )
            for label, pages in sorted(labels.items())
        ),
    )
    for element, name in _ELEMENT_NAMES.items():
        group = document[element]["group"]
        metrics = [metric for metric in group if metric != "sample_count"]
        own = [x for x in _group_labels(document, element) if x.startswith(f"{attribute}: ")]
        yield ResultTable(
            f"{name} by {attribute}",
            (attribute, name, *metrics),
            tuple(
                (
                    label.removeprefix(f"{attribute}: "),
                    group["sample_count"][label],
                    *(group[metric].get(label) for metric in metrics),
                )
                for label in sorted(own)
            ),
        )


def _group_labels(document: Mapping[str, Any], element: str) -> list[str]:
    return list(document[element]["group"].get("sample_count", {}))


def _page_mean(document: Mapping[str, Any], element: str, metric: str, label: str) -> float | None:
    value = document[element]["page"].get(metric, {}).get(label)
    return value if isinstance(value, float | int) else None


def _shown(cell: Cell) -> str:
    if cell is None:
        return "-"
    return f"{cell:.4f}" if isinstance(cell, float) else str(cell)


def long_table(tables: Sequence[ResultTable]) -> ResultTable:
    """Tables of several attributes as one: a row for each value and metric, so that columns are the same."""
    rows: list[tuple[Cell, ...]] = []
    for table in tables:
        attribute, of, *metrics = table.columns
        for value, count, *means in table.rows:
            rows += [(of, attribute, value, count, m, x) for m, x in zip(metrics, means, strict=True)]
    return ResultTable("by attribute", ("of", "attribute", "value", "count", "metric", "mean"), tuple(rows))


def page_table(document: Mapping[str, Any]) -> ResultTable:
    """Every metric of every page, empty where a page has no such element."""
    names = [metric.name for metric in METRICS if not metric.parts]
    return ResultTable(
        "pages",
        ("page", *names),
        tuple(
            (page, *(values.get(name) for name in names)) for page, values in document["page_values"].items()
        ),
    )


def leaderboard(document: Mapping[str, Any], *, name: str) -> ResultTable:
    """The parts as the leaderboard rounds them, Overall first, and what they run over."""
    summary = document["summary"]
    headings = {metric.name: metric.label for metric in METRICS}
    values = [summary["overall_leaderboard"]]
    values += [summary["metrics"][metric]["notebook_value"] for metric, _, _, _ in SUMMARY_METRICS]
    return ResultTable(
        "leaderboard row",
        ("model", "pages", "Overall", *(headings[metric] for metric, _, _, _ in SUMMARY_METRICS)),
        ((name, str(document["pages"]), *("-" if v is None else f"{v:.3f}" for v in values)),),
    )


def as_markdown(table: ResultTable) -> str:
    """The table as a Markdown pipe table under its title."""
    lines = [f"## {table.title}", "", _pipe_row(table.columns), _pipe_row(["---"] * len(table.columns))]
    return "\n".join([*lines, *map(_pipe_row, table.text), ""])


def _pipe_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def as_csv(table: ResultTable) -> str:
    """Headings and rows, comma separated, numbers in full; the title is left out."""
    out = io.StringIO()
    cells = ([repr(cell) if isinstance(cell, float) else cell for cell in row] for row in table.rows)
    csv.writer(out, lineterminator="\n").writerows([table.columns, *cells])
    return out.getvalue()


def official_files(document: Mapping[str, Any], *, name: str) -> dict[str, Any]:
    """File name -> content, as the official program leaves them in its `result` folder.

    `name` is that of the prediction folder. Left out are its environment and timing files.
    """
    run = f"{name}_{document['scorer']['match_method']}"
    elements = ("text_block", "display_formula", "table", "reading_order")
    files: dict[str, Any] = {f"{run}_metric_result.json": {e: document[e] for e in elements}}
    rows = document["rows"]
    for element in elements:
        files[f"{run}_{element}_result.json"] = rows[element]
        files[f"{run}_{element}_per_page_edit.json"] = document["per_page"][element]
    files[f"{run}_table_per_table_TEDS.json"] = {
        f"{row['img_id']}_{row['gt_idx'][0]}": row["metric"]["TEDS"] for row in rows["table"]
    }
    if any("CDM" in row["metric"] for row in rows["display_formula"]):
        files[f"{run}_display_formula_per_sample_CDM.json"] = {
            f"{row['img_id']}_{number}": row["metric"]["CDM"]
            for number, row in enumerate(rows["display_formula"])
        }
    files[f"{run}_run_summary.json"] = document["summary"]
    return files
