"""What a suite says about its samples beyond their task: page, stratum and categories.

`page` groups crops of one page into a cluster, `subset` names the stratum; every other attribute with few
values is a category to break results down by.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from gravbench.analysis.bootstrap import Design, design_of

CLUSTER_ATTRIBUTE = "page"
STRATUM_ATTRIBUTE = "subset"
MAX_CATEGORY_VALUES = 24


class Described(Protocol):
    """A sample of a suite, as far as facts need it."""

    @property
    def sample_id(self) -> str: ...
    @property
    def task(self) -> str: ...
    @property
    def attributes(self) -> Mapping[str, bool | int | str]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleFacts:
    """Labels of one sample."""

    cluster: str
    stratum: str | None = None
    categories: Mapping[str, str] = field(default_factory=dict)


def facts_of(samples: Iterable[Described]) -> dict[str, SampleFacts]:
    """Facts by sample id. Categories are the text and yes/no attributes with 2 to 24 different values."""
    listed = list(samples)
    values: dict[str, set[str]] = {}
    for sample in listed:
        for key, value in sample.attributes.items():
            if not isinstance(value, int) or isinstance(value, bool):
                values.setdefault(key, set()).add(_label(value))
    reserved = {CLUSTER_ATTRIBUTE, STRATUM_ATTRIBUTE}
    kept = {k for k, found in values.items() if 2 <= len(found) <= MAX_CATEGORY_VALUES} - reserved
    return {
        sample.sample_id: SampleFacts(
            cluster=str(sample.attributes.get(CLUSTER_ATTRIBUTE, sample.sample_id)),
            stratum=_stratum(sample),
            categories={key: _label(sample.attributes[key]) for key in sorted(kept & set(sample.attributes))},
        )
        for sample in listed
    }


def plain_facts(sample_ids: Iterable[str]) -> dict[str, SampleFacts]:
    """Facts when the suite is not at hand: every sample its own cluster, no category."""
    return {sample_id: SampleFacts(cluster=sample_id) for sample_id in sample_ids}


def suite_design(
    sample_ids: Iterable[str], tasks: Mapping[str, str], facts: Mapping[str, SampleFacts]
) -> Design:
    """Design of rows in the order given: clusters are pages; strata are subsets, within them tasks.

    A stratum must hold whole clusters, so tasks divide only where every page has crops of one task.
    """
    ids = list(sample_ids)
    clusters = [facts[i].cluster for i in ids]
    subsets = [facts[i].stratum or "" for i in ids]
    by_task = [f"{subset}/{tasks[i]}" for i, subset in zip(ids, subsets, strict=True)]
    for strata in (by_task, subsets):
        if len(set(zip(clusters, strata, strict=True))) == len(set(clusters)):
            return design_of(clusters, strata)
    return design_of(clusters, [""] * len(ids))


def _stratum(sample: Described) -> str | None:
    value = sample.attributes.get(STRATUM_ATTRIBUTE)
    return None if value is None else str(value)


def _label(value: bool | int | str) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
