"""What a scorer is, what a metric says about itself, and scorers by name.

A metric's label, direction, range, definition and signature stand in one place, its row in the table of its
scorer. Terminal, JSON and report read them there; nothing reads them out of a name. A scorer's name
stands for `module:attribute`, a class without arguments, whose module is imported when it is asked for.
"""

from __future__ import annotations

import difflib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from gravbench.errors import UsageError
from gravbench.records import Record, SampleTask
from gravbench.registry import Registry

Direction = Literal["lower", "higher"]
Unit = Literal["ratio", "points"]
"""`ratio` is a bare number, mostly 0..1; `points` run to 100 and are shown with two decimals."""


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One row of a scorer's table."""

    name: str
    label: str
    """As people read it: short enough for a table's heading."""
    unit: Unit = "ratio"
    direction: Direction
    range: tuple[float, float] = (0.0, 1.0)
    definition: str
    """One plain sentence: formula and empty case."""
    signature: str
    """Every choice that can move the value; different signatures do not compare."""
    tasks: tuple[SampleTask, ...]
    parts: tuple[str, ...] = ()
    """Of a composite: the metrics it is the mean of, in points. It has no value of a single sample."""
    parts_needed: int = 0
    """So many parts must be scored, or there is no composite."""

    def __post_init__(self) -> None:
        if not (self.name and self.label and self.definition):
            raise ValueError(f"metric {self.name!r}: expected a name, a label and a definition")
        if self.range[0] >= self.range[1]:
            raise ValueError(f"metric {self.name}: range {self.range}, expected low below high")
        if self.parts and not 1 <= self.parts_needed <= len(self.parts):
            raise ValueError(
                f"metric {self.name}: parts_needed {self.parts_needed} of {len(self.parts)} parts"
            )

    @property
    def higher_is_better(self) -> bool:
        return self.direction == "higher"

    @property
    def worst(self) -> float:
        """The value of a sample that failed."""
        return self.range[0] if self.higher_is_better else self.range[1]

    @property
    def heading(self) -> str:
        """The label with which end is best: `text NED (low)`; a composite in points needs no such hint."""
        hint = "high" if self.higher_is_better else "low"
        return self.label if self.unit == "points" else f"{self.label} ({hint})"

    def points(self, value: float) -> float:
        """`value` on the common scale of 0 to 100, where 100 is best."""
        if self.unit == "points" and self.range == (0.0, 100.0) and self.higher_is_better:
            return value
        low, high = self.range
        share = value if (low, high) == (0.0, 1.0) else (value - low) / (high - low)
        return 100 * (share if self.higher_is_better else 1 - share)

    def shown(self, value: float) -> str:
        """The value as a table prints it."""
        return f"{value:.2f}" if self.unit == "points" else f"{value:.4f}"


class Note(Record):
    """What a reader must know of one scored element: which, its value, why, and what can be done."""

    element: str
    """`table 3`, `formula 0`, or the metric's whole part of the sample: `page`."""
    value: float | None = None
    reason: str
    next_step: str = ""
    machine: bool = False
    """A fault of this machine, not of the answer: a stored score with such a note is made again."""


class Sample(Protocol):
    """A crop or a page, as everything beyond the suites sees it."""

    @property
    def sample_id(self) -> str: ...
    @property
    def task(self) -> SampleTask: ...
    @property
    def image_path(self) -> str | None:
        """Absolute; `None` where `fault` says why there is none."""

    @property
    def image_sha256(self) -> str: ...
    @property
    def attributes(self) -> Mapping[str, bool | int | str]: ...
    @property
    def fault(self) -> str | None:
        """What is wrong with the sample's image; the sample then fails, and others run."""

    @property
    def truth(self) -> str | Mapping[str, object]:
        """Text of a crop, annotation of a page: what a scorer holds an answer against."""

    @property
    def reference_sha(self) -> str:
        """Digest of the truth."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One repeat of one sample. A failed answer has no usable text, and `failed` says so."""

    text: str
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One metric of one answer. `value` is `None` where the metric does not apply; `reason` then says why.

    `counts` are the sufficient statistics to aggregate it again; `weight` among them weighs the
    sample in means.
    """

    metric: str
    value: float | None
    counts: Mapping[str, float] = field(default_factory=dict)
    reason: str | None = None
    notes: tuple[Note, ...] = ()


class Scored(Protocol):
    """A score, of whatever record, as far as averages need it."""

    @property
    def metric(self) -> str: ...
    @property
    def value(self) -> float | None: ...
    @property
    def counts(self) -> Mapping[str, float]: ...
    @property
    def notes(self) -> Sequence[Note]: ...


def weight_of(score: Scored) -> float:
    """What a sample weighs in a metric's mean: its count `weight`, 1 without one."""
    return score.counts.get("weight", 1.0)


def means_of(scores: Iterable[Scored]) -> dict[str, float]:
    """Metric name -> mean over its scored samples, each by its weight; absent where none was scored."""
    columns: dict[str, list[tuple[float, float]]] = {}
    for score in scores:
        if score.value is not None:
            weight = weight_of(score)
            columns.setdefault(score.metric, []).append((weight * score.value, weight))
    sums = {name: [sum(side) for side in zip(*columns[name], strict=True)] for name in sorted(columns)}
    return {name: total / weight for name, (total, weight) in sums.items()}


class Scorer(ABC):
    """Judges answers to samples of its tasks. Subclasses give `name`, `metrics` and `score`.

    A scorer keeps nothing of a sample: equal answers to equal samples have equal scores, so the caller scores
    them once.
    """

    name: str
    """As a suite's TOML names it."""
    metrics: tuple[Metric, ...]
    """The table. The first metric of a task is its headline."""

    @abstractmethod
    def score(self, sample: Sample, answers: Sequence[Answer]) -> list[list[Score]]:
        """Scores of each answer, in order: every repeat of one strategy on one sample.

        One score for each metric of the sample's task that is no composite. A failed answer scores worst.
        """

    def score_all(self, batch: Sequence[tuple[Sample, Sequence[Answer]]]) -> list[list[list[Score]]]:
        """`score` of each, for scorers that do better on many samples at once."""
        return [self.score(sample, answers) for sample, answers in batch]

    def signatures(self) -> dict[str, str]:
        """Metric name -> signature as this machine computes it; composites too."""
        return {metric.name: metric.signature for metric in self.metrics}

    def aggregate(self, scores: Iterable[Scored]) -> dict[str, float]:
        """Metric name -> mean over its scored samples, failed ones as worst; absent when none was scored."""
        own = {metric.name for metric in self.metrics}
        return {name: mean for name, mean in means_of(scores).items() if name in own}

    def remarks(self, scored: Sequence[tuple[Sample, Sequence[Scored]]], *, seed: int) -> Iterable[str]:  # noqa: ARG002
        """Sentences about the scores of one strategy that its table of metrics does not hold; mostly none."""
        return ()


SCORERS = Registry(
    "gravbench.scorers",
    {
        "crops": "gravbench.scorers.crops:CropScorer",
        "crops-quick": "gravbench.scorers.crops:QuickCropScorer",
        "markdown-pages": "gravbench.omnidocbench.page_scores:MarkdownPageScorer",
        "olmocr-bench-0.4.27": "gravbench.olmocr.page_scores:OlmocrScorer",
        "omnidocbench-1.6": "gravbench.omnidocbench.page_scores:OmniDocBenchScorer",
    },
)
"""Each is a class that is made without arguments."""


def open_scorer(name: str) -> Scorer:
    """The scorer of that name; `UsageError` where there is none, or what is there is no scorer."""
    if name not in SCORERS:
        near = difflib.get_close_matches(name, SCORERS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known scorers: {', '.join(SCORERS)}"
        raise UsageError(f"unknown scorer {name!r}", hint=hint)
    made = SCORERS.load(name)()
    if not isinstance(made, Scorer) or made.name != name:
        raise UsageError(
            f"scorer {name!r}: {SCORERS[name]} is no gravbench.scorers.contract.Scorer of that name",
            hint="Correct the entry point of the package that offers it.",
        )
    return made


def metric_table() -> dict[str, Metric]:
    """Every metric of every scorer here, by name, in the order of the scorers' tables.

    A scorer of another package that does not load is left out with a warning: its fault is nobody else's.
    """
    table: dict[str, Metric] = {}
    for name in SCORERS:
        try:
            scorer = open_scorer(name)
        except UsageError as error:
            if SCORERS.is_own(name):
                raise
            warnings.warn(f"{error.message}; its metrics have no labels here", stacklevel=2)
            continue
        for metric in scorer.metrics:
            if table.setdefault(metric.name, metric) != metric:
                raise UsageError(
                    f"scorer {name!r}: metric {metric.name!r} is another scorer's already",
                    hint="Give the metric a name of its own.",
                )
    return table
