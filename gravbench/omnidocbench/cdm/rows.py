"""CDM behind the seams of the page scorer and of verify-scorer, or the reason why it is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gravbench.omnidocbench.cdm.score import CdmPair, CdmResult, CdmToolStatus, check_tools, score_pairs
from gravbench.omnidocbench.cdm.tokenise import tokenise
from gravbench.omnidocbench.evaluation import CdmPair as Spelling
from gravbench.omnidocbench.formula_text import cdm_spelling
from gravbench.omnidocbench.lines import Row


@dataclass(slots=True)
class Cdm:
    """The scorer, if the tools are whole; `status` says why not and what to install."""

    status: CdmToolStatus
    cache_dir: Path
    workers: int = 1
    progress: Callable[[int, int], None] | None = None
    """Called with (renderings done, renderings in all)."""
    results: list[CdmResult] = field(default_factory=list)
    """What the latest call of `score` found, in its order."""

    def score(self, pairs: Sequence[Spelling]) -> Sequence[CdmResult]:
        """CDM of formula pairs in order; see `score_pairs`."""
        wanted = [CdmPair(*pair) for pair in pairs]
        self.results = score_pairs(
            wanted, cache_dir=self.cache_dir, workers=self.workers, progress=self.progress
        )
        return self.results

    def check(self, case: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of a `cdm` case that this machine can compute: tokens always, scores with the tools."""
        found = case_tokens(case)
        if self.status.available:
            result = self.score([(found["gt_stripped"], found["pred_stripped"], None)])[0]
            found |= {
                "recall": result.recall,
                "precision": result.precision,
                "F1_score": result.f1,
                "tp": result.tp,
                "gt_tokens": result.gt_tokens,
                "pred_tokens": result.pred_tokens,
            }
        return found

    def to_record(self, rows: Sequence[Row]) -> dict[str, Any]:
        """For the result of a run: the renderer, or what is missing, and each formula that did not render."""
        status = self.status
        record: dict[str, Any] = {"available": status.available}
        if not status.available:
            missing = list(status.missing_packages)
            return record | {"reason": status.reason, "hint": status.hint, "missing_packages": missing}
        failed = [
            {
                "img_id": row.image,
                "gt_idx": list(row.gt_idx),
                "reason": result.reason,
                "flags": list(result.flags),
            }
            for row, result in zip(rows, self.results, strict=True)
            if result.reason
        ]
        return record | {"signature": status.signature, "versions": dict(status.versions), "failed": failed}


def find_cdm(cache_dir: Path, *, workers: int = 1) -> Cdm:
    """Check the tools by rendering known pairs; takes about a second, and once for an installation."""
    return Cdm(check_tools(memo_dir=cache_dir), cache_dir, workers)


def spelling_of(case: Mapping[str, Any]) -> Spelling:
    """Both formulas of a `cdm` case as they are compared."""
    return cdm_spelling(case["gt"]), cdm_spelling(case["pred"], fenced=True), None


def case_tokens(case: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a `cdm` case that need no tools."""
    gt, pred, _ = spelling_of(case)
    return {"gt_stripped": gt, "pred_stripped": pred, "gt_tok": _tokens(gt), "pred_tok": _tokens(pred)}


def _tokens(formula: str) -> dict[str, Any]:
    found = tokenise(formula)
    return {
        "ok": found.ok,
        "tokenized": found.tokenized,
        "normalized": found.normalized,
        "tokens": list(found.tokens),
    }
