"""What the CDM tests share: the golden cases, and whether the programs they need are here."""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

from gravbench.omnidocbench.cdm.render import Engine, Source
from gravbench.omnidocbench.cdm.score import CdmPair, CdmResult
from gravbench.omnidocbench.cdm.tokenise import tokenise
from gravbench.omnidocbench.cdm.tools import Limits

GOLDEN = Path(__file__).parent / "golden" / "omnidoc" / "function_cases.jsonl"


@cache
def golden_cases() -> list[dict[str, Any]]:
    """The `cdm` cases, made by the official scorer with TeX Live 2022, ImageMagick 6.9, Ghostscript 10."""
    lines = GOLDEN.read_text(encoding="utf-8").splitlines()
    return [case for case in map(json.loads, lines) if case["kind"] == "cdm"]


def golden_pairs() -> list[CdmPair]:
    return [CdmPair.of(case["gt"], case["pred"]) for case in golden_cases()]


def numbers(result: CdmResult) -> tuple[float, float, float, int, int, int]:
    return (
        result.recall,
        result.precision,
        result.f1,
        result.tp,
        result.gt_tokens,
        result.pred_tokens,
    )


def source_of(formula: str) -> Source:
    """The coloured source of a formula that can be tokenised."""
    tokenised = tokenise(formula)
    painted = tokenised.painted
    assert painted is not None
    return Source(painted.body, tokenised.template, len(painted.tokens), painted.colours)


def raw_source(body: str) -> Source:
    """A body given to TeX as it stands, past the tokeniser; one token, so that boxes may be asked for."""
    return Source(body, "plain", 1, 1)


def engine(limits: Limits | None = None) -> Engine:
    found = {name: shutil.which(name) for name in ("pdflatex", "gs")}
    assert found["pdflatex"] is not None and found["gs"] is not None
    return Engine(Path(found["pdflatex"]), Path(found["gs"]), limits or Limits())
