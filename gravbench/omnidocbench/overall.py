"""Overall of OmniDocBench v1.5 and later: ((1 - text edit) * 100 + TEDS * 100 + CDM * 100) / 3.

Higher is better, 100 is perfect. There is no Overall without all three parts.
"""

from __future__ import annotations

from dataclasses import dataclass

SIGNATURE = "overall|parts:text_ned+teds+cdm|agg:page|v:1"


@dataclass(frozen=True, slots=True)
class Overall:
    """`exact` from the parts as they are; `leaderboard` from parts rounded first, as published.

    Both None when a part is missing; `missing` then names what.
    """

    exact: float | None
    leaderboard: float | None
    missing: tuple[str, ...]


def overall(*, text_edit: float | None, teds: float | None, cdm: float | None) -> Overall:
    """Composite of text edit distance (0..1, 0 best), TEDS and CDM (0..1, 1 best), each a page average.

    The leaderboard rounds text edit to 3 decimals, TEDS and CDM to 3 decimals on the 0..100 scale, so the
    two values differ by up to about 0.017.
    """
    parts = {"text_block.Edit_dist": text_edit, "table.TEDS": teds, "display_formula.CDM": cdm}
    missing = tuple(name for name, value in parts.items() if value is None)
    if text_edit is None or teds is None or cdm is None:
        return Overall(None, None, missing)
    exact = ((1.0 - text_edit) * 100.0 + cdm * 100.0 + teds * 100.0) / 3.0
    rounded = ((1.0 - round(text_edit, 3)) * 100.0 + round(cdm * 100.0, 3) + round(teds * 100.0, 3)) / 3.0
    return Overall(exact, rounded, ())
