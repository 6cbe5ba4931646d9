"""Which samples of a suite a run takes: `--pages GLOB`, then `--limit N --stratify KEY --seed S`."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Protocol, TypeVar

from gravbench.errors import UsageError


class Selectable(Protocol):
    """What selection looks at."""

    @property
    def sample_id(self) -> str: ...
    @property
    def task(self) -> str: ...
    @property
    def attributes(self) -> dict[str, bool | int | str]: ...


S = TypeVar("S", bound=Selectable)


def match_pages(samples: Sequence[S], pattern: str | None) -> tuple[S, ...]:
    """Samples whose id, or id with any ending of an image name, matches the shell pattern."""
    if pattern is None:
        return tuple(samples)
    stem = pattern.removesuffix(".jpg").removesuffix(".png").removesuffix(".md")
    kept = tuple(s for s in samples if fnmatchcase(s.sample_id, pattern) or fnmatchcase(s.sample_id, stem))
    if not kept:
        raise UsageError(
            f"--pages: no sample of the suite matches {pattern!r}",
            hint="It is a shell pattern over sample ids, such as 'page-0*'.",
        )
    return kept


def take(
    samples: Sequence[S], limit: int | None, *, stratify: str | None = None, seed: int = 0
) -> tuple[S, ...]:
    """At most `limit` of `samples`, in their order, from every stratum in proportion (largest remainder).

    Without `stratify` the strata are the tasks and the first of each are taken; with it they are the values
    of that attribute (a sample without it is a stratum of its own kind), and `seed` picks within them.
    """
    if stratify is not None and not any(stratify in _keys(sample) for sample in samples):
        known = sorted({key for sample in samples for key in _keys(sample)})
        raise UsageError(f"--stratify: no sample has {stratify!r}", hint=f"known keys: {', '.join(known)}")
    if limit is None or limit >= len(samples):
        return tuple(samples)
    strata: dict[str, list[S]] = {}
    for sample in samples:
        strata.setdefault(str(_keys(sample).get(stratify or "task", "")), []).append(sample)
    quotas = _quotas({name: len(group) for name, group in strata.items()}, limit)
    kept: set[str] = set()
    for name, group in strata.items():
        if stratify is not None:
            random.Random(f"{seed}/{name}").shuffle(group)
        kept |= {sample.sample_id for sample in group[: quotas[name]]}
    return tuple(sample for sample in samples if sample.sample_id in kept)


def _keys(sample: Selectable) -> dict[str, bool | int | str]:
    return {"task": sample.task, **sample.attributes}


def _quotas(sizes: dict[str, int], limit: int) -> dict[str, int]:
    """`limit` split over strata in proportion to their sizes; ties go to the first."""
    total = sum(sizes.values())
    shares = {name: limit * size / total for name, size in sizes.items()}
    quotas = {name: int(share) for name, share in shares.items()}
    by_remainder = sorted(sizes, key=lambda name: quotas[name] - shares[name])
    for name in by_remainder[: limit - sum(quotas.values())]:
        quotas[name] += 1
    return quotas
