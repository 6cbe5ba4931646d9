"""Reference outputs for the verbs that hold runs against them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gravbench.gate.policy import Policy, load_policy
from gravbench.gate.reference import ReferenceArm
from gravbench.resources import data_root

ROOT = "reference_outputs"


def shipped_reference(suite: str) -> Path:
    """Where the reference outputs of a suite that ship lie; the folder need not exist."""
    return data_root(ROOT) / suite


def policy_of(arm: ReferenceArm, extra: Sequence[str | Path] = ()) -> Policy:
    """The default policy under the arm's own tolerances, under `extra`."""
    tolerances = () if arm.tolerances is None else (arm.tolerances,)
    return load_policy([*tolerances, *extra])
