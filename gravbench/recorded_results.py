"""Recorded results of an official program: cases, and where ours are not theirs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gravbench.errors import DataError

SHOWN_MISMATCHES = 5
TOLERANCE = 1e-9


@dataclass(slots=True)
class KindReport:
    """Counts of one kind and its first mismatches. Not run is never passed."""

    passed: int = 0
    failed: int = 0
    not_run: int = 0
    reasons: list[str] = field(default_factory=list)
    """Why cases were not run, each reason once."""
    mismatches: list[str] = field(default_factory=list)

    def add(self, name: str, lines: list[str]) -> None:
        """A case that ran; it passes without differences."""
        if not lines:
            self.passed += 1
            return
        self.failed += 1
        if len(self.mismatches) < SHOWN_MISMATCHES:
            self.mismatches += [f"{name}: {line}" for line in lines[:2]]

    def skip(self, reason: str) -> None:
        self.not_run += 1
        if reason not in self.reasons:
            self.reasons.append(reason)

    def to_record(self) -> dict[str, Any]:
        return {
            "passed": self.passed,
            "failed": self.failed,
            "not_run": self.not_run,
            "reasons": self.reasons,
            "mismatches": self.mismatches,
        }


def read_cases(path: Path, fields: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Cases, one JSON object a line, each with id, kind, expected and these fields."""
    needed = ("id", "kind", *fields, "expected")
    cases: list[dict[str, Any]] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            case = json.loads(line)
            _ = [case[name] for name in needed]
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{path}: line {number} is not a case: {error}",
                hint=f"A case is a JSON object with {', '.join(needed[:-1])} and {needed[-1]}.",
            ) from error
        cases.append(case)
    return cases


def _is_digest(value: Any) -> bool:
    return isinstance(value, Mapping) and set(value) == {"len", "sha1", "head", "tail"}


def _same_text(expected: Mapping[str, Any], found: Any) -> bool:
    if not isinstance(found, str) or len(found) != expected["len"]:
        return False
    return hashlib.sha1(found.encode("utf-8", "surrogatepass")).hexdigest() == str(expected["sha1"])


def differences(
    expected: Any, found: Any, path: str = "", *, partial: bool = False, tolerance: float = TOLERANCE
) -> list[str]:
    """Where `found` is not `expected`, numbers to `tolerance`.

    `partial`: keys that only `found` has are no difference (recorded rows leave fields out).
    """
    if _is_digest(expected):
        return (
            [] if _same_text(expected, found) else [f"{path}: expected text {expected}, found {found!r:.200}"]
        )
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        keys = list(expected) if partial else list(dict.fromkeys((*expected, *found)))
        lost = [f"{path}.{key}: only on one side" for key in keys if key not in found or key not in expected]
        return lost + [
            line
            for key in keys
            if key in expected and key in found
            for line in differences(
                expected[key], found[key], f"{path}.{key}", partial=partial, tolerance=tolerance
            )
        ]
    if isinstance(expected, list) and isinstance(found, list | tuple):
        if len(expected) != len(found):
            return [f"{path}: expected {len(expected)} entries, found {len(found)}"]
        pairs = enumerate(zip(expected, found, strict=True))
        return [
            line
            for i, (e, f) in pairs
            for line in differences(e, f, f"{path}[{i}]", partial=partial, tolerance=tolerance)
        ]
    if _is_number(expected) and _is_number(found):
        close = abs(expected - found) <= tolerance
        return [] if close else [f"{path}: expected {expected!r}, found {found!r}"]
    same = expected == found and type(expected) is type(found)
    return [] if same else [f"{path}: expected {expected!r:.200}, found {found!r:.200}"]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
