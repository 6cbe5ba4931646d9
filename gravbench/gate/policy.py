"""The rules of a gate, read from TOML and laid over each other: shipped default, tolerances, --policy."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, ValidationError

from gravbench.errors import UsageError
from gravbench.gate.verdict import Level
from gravbench.records import Record

SHIPPED = ("default", "new-weights")
_FOLDER = Path(__file__).resolve().parent

Fraction = Annotated[float, Field(ge=0, le=1)]
Points = Annotated[float, Field(ge=0, le=100)]


class IdentityRule(Record):
    """`max_faults` differences that nothing excuses; in mode near-ties also a bound on excess flips."""

    level: Level
    mode: Literal["exact", "near-ties"]
    max_faults: int = Field(ge=0)
    max_excess_flips: Fraction


class AccuracyRule(Record):
    """Non-inferiority `margin` in points, by metric in `margins`; `point_margin` bounds the estimate."""

    level: Level
    margin: Points
    margins: dict[str, Points] = Field(default_factory=dict)
    point_margin: Points | None = None

    def margin_of(self, metric: str) -> float:
        return self.margins.get(metric, self.margin)


class CounterRule(Record):
    """Relative `margin`; below a `min_comparable` share of samples with counts on both sides, no answer."""

    level: Level
    margin: Fraction
    min_comparable: Fraction


class AcceptanceRule(Record):
    """Relative `margin` for groups of at least `min_samples` samples."""

    level: Level
    margin: Fraction
    min_samples: int = Field(ge=2)


class CountRule(Record):
    """Samples by which a count may exceed the reference's."""

    level: Level
    allowed: int = Field(ge=0)
    allowed_share: Fraction

    def limit(self, reference: int, n: int) -> int:
        """Largest count that passes."""
        return reference + max(self.allowed, int(self.allowed_share * n))


class SpeedRule(Record):
    """`floor` of the decode speedup over `ar`."""

    level: Level
    floor: float = Field(gt=0)


class Rules(Record):
    """Every rule there is."""

    token_identity: IdentityRule
    ar_identity: IdentityRule
    accuracy: AccuracyRule
    tokens_per_round: CounterRule
    tokens_per_forward: CounterRule
    forwards_per_sample: CounterRule
    draft_acceptance: AcceptanceRule
    failures: CountRule
    truncation: CountRule
    loops: CountRule
    speed: SpeedRule

    def level_of(self, name: str) -> Level:
        """Level of the rule `name`."""
        level: Level = getattr(self, name).level
        return level


class Policy(Record):
    """`gravbench.policy/1`, complete."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    schema_id: Literal["gravbench.policy/1"] = Field(alias="schema")
    confidence: float = Field(gt=0.5, lt=1)
    resamples: int = Field(ge=100, le=1_000_000)
    seed: int = Field(ge=0)
    must_match: tuple[str, ...] = Field(min_length=1)
    rules: Rules

    @property
    def two_sided(self) -> float:
        """Confidence of the two-sided interval whose limits are the one-sided bounds."""
        return 2 * self.confidence - 1


def load_policy(layers: Iterable[str | Path] = ()) -> Policy:
    """The shipped default with `layers` (names of shipped policies, or files) laid over it, in order.

    A layer may hold any part of a policy. Unknown keys and bad values are `UsageError`s naming the file.
    """
    paths = [_FOLDER / "default.toml", *map(_path_of, layers)]
    values: dict[str, Any] = {}
    for path in paths:
        values = _over(values, _read(path))
        try:
            policy = Policy.model_validate(values)
        except ValidationError as fault:
            problem = fault.errors(include_url=False)[0]
            field = ".".join(map(str, problem["loc"]))
            raise UsageError(
                f"{path}: {field}: {problem['msg']}, found {problem['input']!r}",
                hint="gravbench/gate/default.toml names every rule and its keys.",
            ) from fault
    return policy


def _path_of(layer: str | Path) -> Path:
    if isinstance(layer, str) and layer in SHIPPED:
        return _FOLDER / f"{layer}.toml"
    path = Path(layer)
    if not path.is_file():
        raise UsageError(
            f"policy {layer}: no such file", hint=f"Give a TOML file, or one of {', '.join(SHIPPED)}."
        )
    return path


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as fault:
        raise UsageError(f"{path}: not a readable TOML file: {fault}") from fault


def _over(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` laid over `under`: tables are merged, everything else replaced."""
    merged = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = _over(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged
