"""The rules of a gate, read from TOML and laid over each other: shipped default, tolerances, --policy.

Nothing in a policy is passed over: a field, rule, metric or name of a run's identity that does not exist
is refused, for a rule that a typo switches off passes everything.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gravbench.analysis.quality import metric_rows
from gravbench.errors import UsageError
from gravbench.gate.verdict import Level
from gravbench.records import Record
from gravbench.store.schema import RunIdentity

SHIPPED = ("default", "new-weights", "imports")
NEW_WEIGHTS = "new-weights"
RENAMED = {
    "tokens_per_round": "tau_round",
    "tokens_per_forward": "tpf_all",
}
"""Rules under the names they had, and their names now."""
_FOLDER = Path(__file__).resolve().parent

IDENTITY_FIELDS = tuple(RunIdentity.model_fields)
"""What `must_match` may name; `default.toml` says what each is."""

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
    basis: Literal["common", "all"] = "common"
    """`common`: rounds on the tokens both sides share. `all`: all rounds, whatever was written."""


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


class PlainRule(Record):
    """A rule without numbers."""

    level: Level


class SpeedRule(Record):
    """`floor` of the decode speedup over `ar`."""

    level: Level
    floor: float = Field(gt=0)


class Rules(Record):
    """Every rule there is."""

    token_identity: IdentityRule
    ar_identity: IdentityRule
    accuracy: AccuracyRule
    tau_round: CounterRule
    tpf_all: CounterRule
    accepted_draft: CounterRule
    forwards_per_sample: CounterRule
    draft_acceptance: AcceptanceRule
    acceptance_floor: PlainRule
    failed: CountRule
    stopped_by_length: CountRule
    loops: CountRule
    warnings: PlainRule
    certificate: PlainRule
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

    A layer may hold any part of a policy. Unknown names and bad values are `UsageError`s naming the file.
    """
    paths = [_FOLDER / "default.toml", *map(_path_of, layers)]
    values: dict[str, Any] = {}
    for path in paths:
        values = _over(values, _read(path))
        try:
            policy = Policy.model_validate(values)
        except ValidationError as fault:
            raise _refusal(path, fault) from fault
        _check_names(path, "must_match", policy.must_match, IDENTITY_FIELDS, "field of a run's identity")
        metrics = metric_rows()
        _check_names(path, "rules.accuracy.margins", policy.rules.accuracy.margins, metrics, "metric")
    return policy


def _refusal(path: Path, fault: ValidationError) -> UsageError:
    """The first fault in words; an unknown name with those that are known there."""
    problem = fault.errors(include_url=False)[0]
    *place, last = map(str, problem["loc"])
    if problem["type"] == "extra_forbidden":
        return _unknown(path, ".".join(place) or "top level", last, _known_at(place), "field")
    return UsageError(
        f"{path}: {'.'.join([*place, last])}: {problem['msg']}, found {problem['input']!r}",
        hint="gravbench/gate/default.toml has every rule with its fields and their meaning.",
    )


def _known_at(place: Iterable[str]) -> list[str]:
    """Names of the fields of the table at `place`."""
    model: type[BaseModel] = Policy
    for name in place:
        inner = model.model_fields[name].annotation
        if not isinstance(inner, type) or not issubclass(inner, BaseModel):
            return []
        model = inner
    return [field.alias or name for name, field in model.model_fields.items()]


def _check_names(path: Path, place: str, given: Iterable[str], known: Iterable[str], what: str) -> None:
    names = list(known)
    for name in given:
        if name not in names:
            raise _unknown(path, place, name, names, what)


def _unknown(path: Path, place: str, name: str, known: Iterable[str], what: str) -> UsageError:
    names = list(known)
    near = [RENAMED[name]] if name in RENAMED else get_close_matches(name, names, n=1)
    meant = f"Did you mean {near[0]}? " if near else ""
    return UsageError(f"{path}: {place}: no {what} {name!r}", hint=f"{meant}Known: {', '.join(names)}.")


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
