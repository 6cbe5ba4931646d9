"""A suite with its samples: own crops, pages of a folder, or crops cut from them; and which a run takes."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol, TypeVar

from gravbench.errors import DataError, UsageError
from gravbench.pages.regions import PageSample
from gravbench.suites.manifest import PageSet, Suite, load_samples
from gravbench.suites.page_crops import PageCrops, crop_samples
from gravbench.suites.page_folder import PageData, digest_images, read_page_folder
from gravbench.suites.samples import Sample, contained_path

AnySample = Sample | PageSample
DATA_VARIABLE = "GRAVBENCH_DATA"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which samples: `--pages`, `--where`, `--limit`, `--stratify`, `--seed`; and `--allow-drift suite`."""

    pages: str | None = None
    where: str | None = None
    limit: int | None = None
    stratify: str | None = None
    seed: int = 0
    allow_drift: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedSuite:
    """A suite's chosen samples. `pages` says which copy of the page data they come from."""

    suite: Suite
    samples: tuple[AnySample, ...]
    pages: PageData | None = None
    crops: PageCrops | None = None
    """All crops cut from those pages, for a `page-crops` suite."""

    @property
    def data_label(self) -> str | None:
        """What the page data may be called, with the number of pages taken from it."""
        if self.pages is None:
            return None
        taken = self.pages_taken
        whole = len(self.pages.samples)
        if self.crops is not None:
            all_crops = len(self.crops.samples)
            some = f"; {len(self.samples):,} of its {all_crops:,} crops in this run"
            return self.pages.name.label + (some if len(self.samples) < all_crops else "")
        if taken == whole == self.pages.entries:
            return self.pages.name.label
        return f"{self.pages.name.label}; {taken:,} of these pages in this run"

    @property
    def pages_taken(self) -> int:
        """Pages read, or pages that the run's crops are cut from."""
        return len({sample.page for sample in self.samples if sample.page is not None})

    @property
    def selected(self) -> bool:
        """Whether `--limit` or `--pages` left out some of the page data."""
        if self.crops is not None:
            return len(self.samples) < len(self.crops.samples)
        return self.pages is not None and self.pages_taken < len(self.pages.samples)


def data_folder(suite: Suite, *, data: Path | None, environ: Mapping[str, str]) -> Path | None:
    """Folder of a suite's pages: --data, the shipped one, or its place in GRAVBENCH_DATA; None: no pages."""
    if suite.pages is None:
        if data is not None:
            raise UsageError(f"suite {suite.name} ships its data", hint="Leave --data out.")
        return None
    if data is not None and suite.pages.data is not None:
        raise UsageError(
            f"suite {suite.name} ships its pages, and {data} would run under its name",
            hint="Leave --data out; pages of your own need a suite manifest of their own.",
        )
    if data is not None:
        return _given(data, suite.pages)
    if suite.pages.data is not None:
        folder = Path(suite.manifest_path).parent
        return contained_path(folder, suite.pages.data, where=f"{suite.manifest_path}: field pages.data")
    return _placed(suite, suite.pages, environ)


def open_suite(
    suite: Suite,
    *,
    data: Path | None,
    environ: Mapping[str, str],
    cache: Path,
    selection: Selection,
    note: Callable[[str], None],
) -> OpenedSuite:
    """All chosen samples, crops before pages, each sorted by id; `DataError` when data is missing."""
    folder = data_folder(suite, data=data, environ=environ)
    return open_folder(suite, folder, cache=cache, selection=selection, note=note)


def open_folder(
    suite: Suite,
    folder: Path | None,
    *,
    cache: Path,
    selection: Selection,
    note: Callable[[str], None],
) -> OpenedSuite:
    """The suite on the pages of exactly this folder; `None` where it has no pages."""
    page_data: PageData | None = None
    crops: PageCrops | None = None
    samples: Sequence[AnySample] = load_samples(suite)
    if folder is not None and suite.pages is not None:
        page_data = read_page_folder(suite.pages, folder, allow_drift=selection.allow_drift)
        if suite.kind == "page-crops":
            crops = crop_samples(suite, digest_images(page_data.samples), cache=cache, note=note)
            samples = crops.samples
        else:
            samples = (*samples, *page_data.samples)
    chosen = take(
        match_attribute(match_pages(samples, selection.pages), selection.where),
        selection.limit,
        stratify=selection.stratify,
        seed=selection.seed,
    )
    read = {} if page_data is None else page_data.read([sample.sample_id for sample in chosen])
    samples = tuple(read.get(sample.sample_id, sample) for sample in chosen)
    return OpenedSuite(suite=suite, samples=samples, pages=page_data, crops=crops)


def _given(data: Path, pages: PageSet) -> Path:
    if data.is_dir():
        return data
    found = "is a file" if data.exists() else "no such folder"
    raise DataError(
        f"{data}: {found}, expected a folder with {_contents(pages)}",
        hint="Put them there, or name their folder with --data.",
    )


def _placed(suite: Suite, pages: PageSet, environ: Mapping[str, str]) -> Path:
    assert pages.place is not None
    root = environ.get(DATA_VARIABLE)
    fetch = f"get {pages.release}" if pages.has_tests else f"`gravbench suites fetch {suite.name}`"
    if not root:
        raise DataError(
            f"suite {suite.name}: its pages do not ship with gravbench, and {DATA_VARIABLE} is not set",
            hint=f"Set {DATA_VARIABLE} to a folder that holds (or shall hold) {pages.place}/, then "
            f"{fetch}; or name a folder with {_contents(pages)} by --data.",
        )
    folder = Path(root) / pages.place
    if not folder.is_dir():
        raise DataError(
            f"suite {suite.name}: {folder} not found",
            hint=f"{fetch[:1].upper() + fetch[1:]}, or place {_contents(pages)} of {pages.release} there "
            "by hand.",
        )
    return folder


def _contents(pages: PageSet) -> str:
    return f"{pages.annotations} and {'pdfs/' if pages.has_tests else 'images/'}"


class Selectable(Protocol):
    """What selection looks at."""

    @property
    def sample_id(self) -> str: ...
    @property
    def task(self) -> str: ...
    @property
    def attributes(self) -> Mapping[str, bool | int | str]: ...


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


def match_attribute(samples: Sequence[S], wanted: str | None) -> tuple[S, ...]:
    """Samples whose attribute `KEY` is `VALUE`, of `wanted` = `KEY=VALUE`; the task is an attribute too."""
    if wanted is None:
        return tuple(samples)
    key, equals, value = wanted.partition("=")
    found: dict[str, None] = {}
    kept = []
    for sample in samples:
        if key in _keys(sample):
            own = _keys(sample)[key]
            shown = str(own).lower() if isinstance(own, bool) else str(own)
            found[shown] = None
            if shown == value:
                kept.append(sample)
    if not kept:
        known = sorted({name for sample in samples for name in _keys(sample)})
        near = f"values of {key}: {', '.join(sorted(found)[:20])}" if found else f"keys: {', '.join(known)}"
        what = "expected KEY=VALUE" if not equals else "no sample of the suite has it"
        raise UsageError(f"--where: {wanted!r}: {what}", hint=near)
    return tuple(kept)


def take(
    samples: Sequence[S], limit: int | None, *, stratify: str | None = None, seed: int = 0
) -> tuple[S, ...]:
    """At most `limit` of `samples`, in their order, from every stratum in proportion (largest remainder).

    The strata are the tasks and, within pages, the subsets of the benchmark; with `stratify` they are the
    values of that attribute (a sample without it is a stratum of its own kind). `seed` picks within them.
    """
    if stratify is not None and not any(stratify in _keys(sample) for sample in samples):
        known = sorted({key for sample in samples for key in _keys(sample)})
        raise UsageError(f"--stratify: no sample has {stratify!r}", hint=f"known keys: {', '.join(known)}")
    if limit is None or limit >= len(samples):
        return tuple(samples)
    strata: dict[str, list[S]] = {}
    for sample in samples:
        strata.setdefault(_stratum(sample, stratify), []).append(sample)
    quotas = _quotas({name: len(group) for name, group in strata.items()}, limit)
    kept: set[str] = set()
    for name, group in strata.items():
        random.Random(f"{seed}/{name}").shuffle(group)
        kept |= {sample.sample_id for sample in group[: quotas[name]]}
    return tuple(sample for sample in samples if sample.sample_id in kept)


def _stratum(sample: Selectable, stratify: str | None) -> str:
    if stratify is not None:
        return str(_keys(sample).get(stratify, ""))
    return f"{sample.task}/{sample.attributes.get('subset', '')}"


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
