"""Ways to split a run into groups: task, output length, category. Groups are described, never gated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gravbench.analysis.facts import SampleFacts
from gravbench.analysis.loaded import Unit

LENGTH_EDGES = (8, 16, 32, 64, 128, 256)
"""Upper ends of the output-length buckets, in tokens of the base arm, EOS and prefill's token included."""

Group = tuple[str, str, tuple[int, ...]]
"""(kind, label, indices of units)."""


def length_label(tokens: int) -> str:
    """Bucket of an output length: `1-8`, `9-16`, ..., `257+`."""
    low = 1
    for edge in LENGTH_EDGES:
        if tokens <= edge:
            return f"{low}-{edge}"
        low = edge + 1
    return f"{low}+"


def groups(units: Sequence[Unit], facts: Mapping[str, SampleFacts], *, base: str) -> Iterator[Group]:
    """All groups of a run, in a fixed order: tasks, length buckets, then categories by key and label.

    Units whose base arm failed have no length; units without a category are in none of its groups.
    """
    yield from _grouped("task", [unit.task for unit in units])
    lengths = [_length(unit, base) for unit in units]
    labels = [None if n is None else length_label(n) for n in lengths]
    order = sorted(range(len(units)), key=lambda i: lengths[i] or 0)
    yield from _grouped("length", labels, order=order)
    for key in sorted({key for unit in units for key in facts[unit.sample_id].categories}):
        named = [facts[unit.sample_id].categories.get(key) for unit in units]
        yield from _grouped(key, named, order=sorted(range(len(units)), key=lambda i: named[i] or ""))


def _grouped(
    kind: str, labels: Sequence[str | None], *, order: Sequence[int] | None = None
) -> Iterator[Group]:
    found: dict[str, list[int]] = {}
    for index in order if order is not None else range(len(labels)):
        label = labels[index]
        if label is not None:
            found.setdefault(label, []).append(index)
    for label, indices in found.items():
        yield kind, label, tuple(sorted(indices))


def _length(unit: Unit, base: str) -> int | None:
    record = unit.records[base]
    return len(record.token_ids) if record.status == "ok" else None
