"""The official function cases, by kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parent / "golden" / "omnidoc"


def cases(kind: str) -> list[dict[str, Any]]:
    lines = (GOLDEN / "function_cases.jsonl").read_text(encoding="utf-8").splitlines()
    return [case for case in map(json.loads, lines) if case["kind"] == kind]


def golden(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((GOLDEN / name).read_text(encoding="utf-8"))["cases"]
    return found
