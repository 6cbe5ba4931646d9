"""Is the tool chain fit to score CDM? A chain that is not would give 0 for every formula without a word.

The check renders pairs whose values are known, through the same code as every score: an identical pair must
give 1.0 in each template, and one fixed pair of different formulas its published value.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from gravbench.errors import EngineError
from gravbench.omnidocbench.cdm.sandbox import Limits
from gravbench.omnidocbench.cdm.score import CdmPair, CdmResult, score_pairs, signature
from gravbench.omnidocbench.cdm.tools import find_tools, install_command, missing_packages

SAME = r"\frac{a}{b}+\sqrt{x_{1}}"
SAME_CJK = r"面积=长\times 宽"
KNOWN = (r"\frac{a}{b}", "a/b", 0.667)
"""Formula, prediction and CDM of the pair that must not give 1."""


@dataclass(frozen=True)
class CdmToolStatus:
    """`available` is False when CDM must not be scored; `reason` and `hint` then say why and what to do."""

    available: bool
    reason: str | None = None
    hint: str | None = None
    missing_packages: tuple[str, ...] = ()
    """Debian packages to install, exact names; empty when nothing is known to be missing."""
    versions: tuple[tuple[str, str], ...] = ()
    signature: str | None = None


def check_tools(*, search_path: str | None = None, limits: Limits | None = None) -> CdmToolStatus:
    """Find the tools and render the known pairs. Never raises; takes about a second."""
    try:
        tools = find_tools(search_path=search_path)
    except EngineError as error:
        return CdmToolStatus(False, error.message, error.hint, _packages_of(error))
    versions = tuple(sorted(tools.versions.items()))
    reason = _rendering_fault(search_path, limits)
    if reason is None:
        return CdmToolStatus(True, versions=versions, signature=signature(tools))
    absent = missing_packages(tools)
    return CdmToolStatus(False, reason, _hint(absent), absent, versions)


def _packages_of(error: EngineError) -> tuple[str, ...]:
    return tuple(word for word in (error.hint or "").split()[3:])


def _hint(absent: tuple[str, ...]) -> str:
    if absent:
        return install_command(absent)
    return "reinstall the tools: " + install_command()


def _rendering_fault(search_path: str | None, limits: Limits | None) -> str | None:
    """What is wrong with the renderings; `None` when every known value comes out."""
    known_gt, known_pred, known_value = KNOWN
    expected = ((SAME, SAME, 1.0), (SAME_CJK, SAME_CJK, 1.0), (known_gt, known_pred, known_value))
    with tempfile.TemporaryDirectory(prefix="gravbench-cdm-check-") as folder:
        try:
            results = score_pairs(
                [CdmPair(gt, pred) for gt, pred, _ in expected],
                cache_dir=Path(folder),
                search_path=search_path,
                limits=limits,
            )
        except OSError as error:
            return f"the check could not run: {error}"
    for (gt, pred, value), result in zip(expected, results, strict=True):
        if abs(result.f1 - value) > 1e-9:
            return _describe(gt, pred, value, result)
    return None


def _describe(gt: str, pred: str, value: float, result: CdmResult) -> str:
    kind = "an identical pair" if gt == pred else "a known pair"
    why = f" ({result.reason})" if result.reason else ""
    return f"{kind} scores {result.f1} instead of {value}: {gt!r} against {pred!r}{why}"
