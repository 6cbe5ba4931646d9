"""The result of a run as one JSON document; the same bytes for the same inputs, without clock or machine."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from gravbench.metrics import repetition
from gravbench.omnidocbench.evaluation import Evaluation
from gravbench.omnidocbench.page_metrics import (
    ELEMENTS,
    METRICS,
    TABLE_SIGNATURE,
    ElementScores,
    aggregate,
    overall,
    page_labels,
)
from gravbench.omnidocbench.page_scores import notes_of, scores_of
from gravbench.omnidocbench.quick_match import QUICK_MATCH
from gravbench.omnidocbench.result_file import SCHEMA
from gravbench.scorers.contract import Note

SUMMARY_METRICS = (
    ("text_block_Edit_dist", "text_block", ("all", "Edit_dist", "ALL_page_avg"), 1.0),
    ("display_formula_CDM", "display_formula", ("page", "CDM", "ALL"), 100.0),
    ("table_TEDS", "table", ("page", "TEDS", "ALL"), 100.0),
    ("table_TEDS_structure_only", "table", ("page", "TEDS_structure_only", "ALL"), 100.0),
    ("reading_order_Edit_dist", "reading_order", ("all", "Edit_dist", "ALL_page_avg"), 1.0),
)
"""Leaderboard name, element, path to the value, factor of the leaderboard's scale."""


def signatures(match: str = QUICK_MATCH) -> dict[str, str]:
    """Metric -> every choice that can move it."""
    if match != QUICK_MATCH:
        return {name: f"{value}|match:{_method(match)}" for name, value in signatures().items()}
    return {
        **{metric.name: metric.signature for metric in METRICS},
        "table_Edit_dist": TABLE_SIGNATURE,
        "surplus": repetition.SIGNATURE,
    }


def _method(match: str) -> str:
    return match if match == QUICK_MATCH else f"{match} (unverified)"


def _value(scores: Mapping[str, ElementScores], element: str, path: tuple[str, ...]) -> float | None:
    found: Any = scores[element].official()
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return float(found) if isinstance(found, int | float) else None


def summarize(scores: Mapping[str, ElementScores]) -> dict[str, Any]:
    """Leaderboard parts and Overall, unrounded (`overall_notebook`) and rounded as the leaderboard does."""
    metrics: dict[str, Any] = {}
    raw: dict[str, float | None] = {}
    for name, element, path, factor in SUMMARY_METRICS:
        raw[name] = value = _value(scores, element, path)
        metric = path[1]
        metrics[name] = {
            "raw": value,
            "page_denominator": scores[element].denominators.get(metric),
            "notebook_value": None if value is None else value * factor,
        }
    total = overall(
        text_edit=raw["text_block_Edit_dist"], teds=raw["table_TEDS"], cdm=raw["display_formula_CDM"]
    )
    return {
        "metrics": metrics,
        "overall_notebook": total.exact,
        "overall_leaderboard": total.leaderboard,
        "overall_missing": list(total.missing),
    }


def _labels(evaluation: Evaluation) -> dict[str, dict[str, int]]:
    """Page attribute -> label that its pages count under -> number of pages."""
    found: dict[str, dict[str, int]] = {}
    for page in evaluation.pages:
        for name, value in page.attributes.items():
            for label in page_labels({name: value}):
                counts = found.setdefault(name, {})
                counts[label] = counts.get(label, 0) + 1
    return found


def _page_values(evaluation: Evaluation) -> dict[str, dict[str, float | None]]:
    """Page -> what it adds to each official average; None where it has no such element."""
    unrendered = None if evaluation.cdm_scored else Note(element="page", reason="not asked for")
    return {
        page.image: {score.metric: score.value for score in scores_of(page, result, unrendered=unrendered)}
        for page, result in zip(evaluation.pages, evaluation.results, strict=True)
    }


def _notes(evaluation: Evaluation) -> list[dict[str, Any]]:
    """What a reader must know of single elements: page, element, value, reason, next step."""
    return [
        {"page": result.image, **note.model_dump(exclude_defaults=True)}
        for result in evaluation.results
        for note in notes_of(result, evaluation.outcomes)
    ]


def _surplus(evaluation: Evaluation) -> dict[str, Any]:
    return {
        result.image: {
            "share": result.surplus.share,
            "surplus_chars": result.surplus.surplus_chars,
            "predicted_chars": result.surplus.predicted_chars,
            "repeated_unit": result.repetition.unit,
            "repeats": result.repetition.repeats,
        }
        for result in evaluation.results
    }


def _formula_tree(evaluation: Evaluation) -> dict[str, Any]:
    """Mean tree score of the formula rows (1 best), beside their edit distance; no official value."""
    found = [value for result in evaluation.results for value in result.formula_trees]
    scored = [value for value in found if value is not None]
    mean = sum(scored) / len(scored) if scored else None
    return {"sample_avg": mean, "rows": len(scored), "unscored": len(found) - len(scored)}


def build_document(evaluation: Evaluation, *, inputs: Mapping[str, str]) -> dict[str, Any]:
    """Everything a run found. `inputs` says what was scored (names and digests)."""
    scores = aggregate(evaluation)
    results = evaluation.results
    unconverted = sum(result.unconverted_latex_tables for result in results)
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "scorer": {
            "follows": "OmniDocBench 1.6.0",
            "match_method": _method(evaluation.match),
            "signatures": signatures(evaluation.match),
        },
        "inputs": dict(inputs),
        "pages": len(evaluation.pages),
        "summary": summarize(scores),
    }
    document |= {element: scores[element].official() for element in ELEMENTS}
    document |= {
        "per_page": {element: scores[element].per_page for element in ELEMENTS},
        "page_denominators": {element: scores[element].denominators for element in ELEMENTS},
        "pages_without_prediction": sorted(evaluation.without_prediction),
        "unused_files": list(evaluation.files.unused),
        "nearest_files": dict(evaluation.files.nearest),
        "pages_not_scored_as_given": len(evaluation.unscored),
        "labels": _labels(evaluation),
        "page_values": _page_values(evaluation),
        "notes": _notes(evaluation),
        "crashed_predictions": {result.image: result.crash for result in results if result.crash},
        "table_errors": {result.image: list(result.errors) for result in results if result.errors},
        "latex_tables": {
            "in_predictions": sum(result.latex_tables for result in results),
            "unconverted": unconverted,
        },
        "clock_limits": [limit.to_record() for result in results for limit in result.clock_limits],
        "surplus": _surplus(evaluation),
        "formula_tree": _formula_tree(evaluation),
    }
    document["rows"] = {
        element: [row.to_record() for row in evaluation.rows(element)] for element in ELEMENTS[:3]
    }
    document["rows"]["reading_order"] = [result.order.to_record() for result in results if result.order]
    return document


def encode(document: Mapping[str, Any]) -> bytes:
    """UTF-8 JSON; lone surrogates, which UTF-8 cannot hold, as `\\ud800` escapes."""
    written = io.BytesIO()  # one buffer: a list of the pieces took 380 MB more for 42 MB of text
    written.writelines(_pieces(document, 0))
    written.write(b"\n")
    return written.getvalue()


_LEVELS = 3
"""Lists and objects down to this level have a line for each member; below, a row or a value is one line."""


def _pieces(value: Any, level: int) -> Iterator[bytes]:
    if level == _LEVELS or not value or not isinstance(value, Mapping | list):
        yield _one_line(value)
        return
    margin = b"\n" + b" " * (level + 1)
    opening, closing = (b"[", b"]") if isinstance(value, list) else (b"{", b"}")
    for number, member in enumerate(value):
        yield b"," + margin if number else opening + margin
        if isinstance(value, list):
            yield from _pieces(member, level + 1)
        else:
            yield _one_line(member) + b": "
            yield from _pieces(value[member], level + 1)
    yield margin[:-1] + closing


def _one_line(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:  # half a surrogate pair, or a number beyond 64 bits
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8", "backslashreplace")
