"""Quality of kinds of crops: short lines, paragraphs, unseen fonts, random letters, as a suite marks them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gravbench.analysis.word_order import Attributes
from gravbench.records import Record
from gravbench.store.schema import ScoreRecord

TEXT_KEYS = ("kind",)
"""Attributes whose values name groups."""
YES_KEYS = ("random_letters", "unseen_font")
"""Yes/no attributes: the samples that say yes are a group, beside whatever kind they are."""


class GroupQuality(Record):
    """Mean of one metric over the `n` scored samples of a group, per strategy; failed ones as worst."""

    n: int
    metric: str
    quality: dict[str, float]


def quality_groups(
    scores: Iterable[ScoreRecord], attributes: Attributes
) -> dict[str, list[GroupQuality]] | None:
    """Group name -> one entry a metric; `None` when the suite marks no groups.

    A group is a value of `kind` or a yes of `random_letters` or `unseen_font`; groups overlap.
    """
    found: dict[tuple[str, str], dict[str, list[float]]] = {}
    for score in scores:
        if score.value is not None:
            for group in _groups(attributes.get(score.sample_id, {})):
                found.setdefault((group, score.metric), {}).setdefault(score.arm, []).append(score.value)
    result: dict[str, list[GroupQuality]] = {}
    for (group, metric), arms in sorted(found.items()):
        quality = {arm: sum(values) / len(values) for arm, values in arms.items()}
        n = max(len(values) for values in arms.values())
        result.setdefault(group, []).append(GroupQuality(n=n, metric=metric, quality=quality))
    return result or None


def _groups(sample: Mapping[str, bool | int | str]) -> Iterable[str]:
    yield from (str(sample[key]) for key in TEXT_KEYS if isinstance(sample.get(key), str))
    yield from (key for key in YES_KEYS if sample.get(key) is True)
