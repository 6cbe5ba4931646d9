"""What differs between two runs before any number is looked at: suites, hashes, settings, machines."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from gravbench.analysis.loaded import LoadedRun
from gravbench.records import Record
from gravbench.store.schema import canonical_json

SAME_QUESTION = (
    "suite",
    "suite_version",
    "suite_sha",
    "samples_sha",
    "references_sha",
    "n_samples",
    "prompts",
    "max_new_tokens",
    "scorer",
    "assembler",
    "layout",
    "crop_grid",
)
"""Fields of a run's identity that must agree for two runs to answer the same question."""

ENVIRONMENT_FIELDS = ("gravbench", "git", "python", "os", "cpu", "host_sha", "variables")
SHOWN_CHARACTERS = 90


class FieldDifference(Record):
    """One field with another value on each side, as short JSON."""

    field: str
    base: str
    own: str


def identity_differences(
    base: Mapping[str, JsonValue], own: Mapping[str, JsonValue], fields: tuple[str, ...] | None = None
) -> tuple[FieldDifference, ...]:
    """Differing fields, sorted; all of both sides when `fields` is `None`."""
    names = sorted({*base, *own}) if fields is None else fields
    return tuple(
        FieldDifference(field=name, base=_short(base.get(name)), own=_short(own.get(name)))
        for name in names
        if base.get(name) != own.get(name)
    )


def environment_differences(base: LoadedRun, own: LoadedRun) -> tuple[FieldDifference, ...]:
    """Differences of code version, machine and packages."""
    a, b = base.manifest.environment, own.manifest.environment
    machine = identity_differences(a, b, ENVIRONMENT_FIELDS)
    packages_a, packages_b = (e.get("packages") for e in (a, b))
    if not isinstance(packages_a, dict) or not isinstance(packages_b, dict):
        return machine
    packages = identity_differences(packages_a, packages_b)
    return (*machine, *(d.model_copy(update={"field": f"package {d.field}"}) for d in packages))


def sample_problem(base: frozenset[str], own: frozenset[str]) -> str | None:
    """Missing and extra sample ids in words; `None` when both sides have the same."""
    parts = [
        f"{len(ids)} sample{'s' if len(ids) > 1 else ''} {what}: {_listed(ids)}"
        for what, ids in (("missing", base - own), ("extra", own - base))
        if ids
    ]
    return "; ".join(parts) or None


def _listed(ids: frozenset[str]) -> str:
    shown = sorted(ids)[:5]
    more = f" and {len(ids) - len(shown)} more" if len(ids) > len(shown) else ""
    return ", ".join(shown) + more


def _short(value: JsonValue) -> str:
    text = canonical_json(value).decode("utf-8")
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 3] + "..."
