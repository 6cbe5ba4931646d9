"""What lets a result be compared: what every page was, what was read of it, and its scores with counts.

It stands in the JSON document as `page_records`, with and without the rows, and is read back here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, ValidationError

from gravbench.errors import DataError, NotComparableError, printable
from gravbench.omnidocbench.page_metrics import FORMULA, FORMULA_CDM, TEDS, TEDS_S, TEXT, row_labels
from gravbench.omnidocbench.page_scores import scores_of
from gravbench.records import Record
from gravbench.scorers.contract import Note
from gravbench.store.schema import sha256_of, sha256_text

if TYPE_CHECKING:
    from gravbench.omnidocbench.evaluation import Evaluation
    from gravbench.omnidocbench.lines import Row

SCHEMA = "gravbench.omnidoc/2"
MAX_RESULT_BYTES = 4 * 1024 * 1024 * 1024

ELEMENT_METRICS = {
    "text_block": {"Edit_dist": TEXT},
    "display_formula": {"Edit_dist": FORMULA, "CDM": FORMULA_CDM},
    "table": {"TEDS": TEDS, "TEDS_structure_only": TEDS_S},
}
"""Element -> official metric of its rows -> the page metric of the same kind."""

Sums = dict[str, dict[str, dict[str, tuple[float, int]]]]
"""Element -> "attribute: value" -> page metric -> sum of the values of its rows, and how many rows."""


class PageFacts(Record):
    """What the annotation says of a page: attributes as single values, and the digest of all of it."""

    attributes: dict[str, bool | int | str]
    listed: tuple[str, ...] = ()
    """Those that are lists in the annotation."""
    reference_sha256: str


class PageScore(Record):
    """One metric of one page, as in a run: `value` is None where `reason` says why."""

    metric: str
    value: float | None
    counts: dict[str, float]
    reason: str | None = None
    notes: tuple[Note, ...] = ()


class PageRecord(Record):
    """One page of a result. `fault`: why there is no usable prediction; it then scores as an empty one."""

    page: str
    """Base name of the image."""
    facts: PageFacts
    markdown: str
    fault: str | None = None
    scores: tuple[PageScore, ...]
    elements: Sums


def reference_digest(entry: Mapping[str, Any]) -> str:
    """Digest of a page's annotation, whatever its formatting."""
    try:
        return sha256_of(entry)
    except TypeError:  # half a surrogate pair, or a number beyond 64 bits
        return sha256_text(json.dumps(entry, sort_keys=True))


def page_records(
    evaluation: Evaluation, facts: Sequence[PageFacts], *, unrendered: Note | None
) -> list[dict[str, Any]]:
    """A record a page, as JSON, in the order of the evaluation; `facts` in the same order.

    `unrendered` says why there is no CDM at all.
    """
    from gravbench.omnidocbench.evaluation import read_prediction  # reading a result needs no scorer

    missing = set(evaluation.without_prediction)
    records = []
    for page, result, file, fact in zip(
        evaluation.pages, evaluation.results, evaluation.files.paths, facts, strict=True
    ):
        fault = result.crash if result.unreadable else None
        if page.image in missing:
            fault = "no prediction file"
        scores = scores_of(page, result, unrendered=unrendered, reasons=evaluation.outcomes)
        record = PageRecord(
            page=printable(page.image),
            facts=fact,
            markdown="" if fault else read_prediction(file).markdown or "",
            fault=fault,
            scores=tuple(
                PageScore(
                    metric=s.metric, value=s.value, counts=dict(s.counts), reason=s.reason, notes=s.notes
                )
                for s in scores
            ),
            elements={
                "text_block": _sums("text_block", [*result.text, *result.text_from_formulas]),
                "display_formula": _sums("display_formula", result.formulas),
                "table": _sums("table", result.tables),
            },
        )
        records.append(record.model_dump(mode="json", exclude_defaults=True))
    return records


def _sums(element: str, rows: Sequence[Row]) -> dict[str, dict[str, tuple[float, int]]]:
    sums: dict[str, dict[str, tuple[float, int]]] = {}
    for row in rows:
        for label in map(printable, row_labels(row)):
            for official, metric in ELEMENT_METRICS[element].items():
                if official in row.metric:
                    own = sums.setdefault(label, {})
                    total, count = own.get(metric, (0.0, 0))
                    own[metric] = total + row.metric[official], count + 1
    return sums


class _Scorer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    follows: str
    signatures: dict[str, str]


class Result(BaseModel):
    """A stored result, as far as comparing needs it; its tables and rows are left unread."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    scorer: _Scorer
    inputs: dict[str, Any]
    data: dict[str, Any]
    page_records: tuple[PageRecord, ...]

    @property
    def name(self) -> str:
        """Of the folder of predictions."""
        return str(self.inputs.get("predictions", ""))


def read_result(path: Path) -> Result:
    """What `gravbench omnidoc --out` or `--json` wrote.

    `DataError` for anything else; `NotComparableError` (exit 3) for a result of another version.
    """
    from gravbench.imaging import read_bounded  # an image library, for those who read only

    data = read_bounded(path, limit=MAX_RESULT_BYTES, what="result")
    hint = "Expected what `gravbench omnidoc --out FILE` writes, or the folder of a run."
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as fault:
        raise DataError(f"{path}: not JSON: {fault}", hint=hint) from fault
    schema = document.get("schema") if isinstance(document, Mapping) else None
    if schema != SCHEMA:
        if str(schema).startswith("gravbench.omnidoc/"):
            raise NotComparableError(
                f"{path}: schema is {schema}, expected {SCHEMA}: it was written by another version",
                hint="Score the predictions again: gravbench omnidoc --gt FILE --predictions DIR --out FILE.",
            )
        raise DataError(f"{path}: schema is {schema!r}, expected {SCHEMA}", hint=hint)
    try:
        return Result.model_validate(document)
    except ValidationError as fault:
        first = fault.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise DataError(
            f"{path}: field {field}: {first['msg']}",
            hint="The file was changed or cut; write it again with gravbench omnidoc --out.",
        ) from fault
