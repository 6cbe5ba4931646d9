"""An arm is written `id:option=value,...`; this file reads that without knowing any strategy.

`batch=N` is understood for every id: N requests decode together. Speed is compared at equal batch size,
so the partner of `selfspec:batch=4` is `ar:batch=4`.
"""

from __future__ import annotations

from collections.abc import Collection

from gravbench.errors import UsageError

AR = "ar"
BATCH = "batch"
MAX_BATCH = 1024


def split_arm(arm: str) -> tuple[str, dict[str, str]]:
    """Id and options of an arm; `UsageError` where an option is not written `option=value`, or twice."""
    name, colon, tail = arm.partition(":")
    options: dict[str, str] = {}
    for part in tail.split(",") if colon else ():
        key, equals, value = part.partition("=")
        if not (key and equals and value):
            raise UsageError(f"strategy '{arm}': expected option=value, got '{part}'")
        if key in options:
            raise UsageError(f"strategy '{arm}': option '{key}' is given twice")
        options[key] = value
    return name, options


def batch_of(arm: str) -> int:
    """Requests that decode together, 1 by default; `UsageError` unless 1 to 1024."""
    value = split_arm(arm)[1].get(BATCH, "1")
    size = int(value) if value.isascii() and value.isdigit() and len(value) < 9 else 0
    if not 1 <= size <= MAX_BATCH:
        raise UsageError(
            f"strategy '{arm}': batch is '{value}', expected an integer from 1 to {MAX_BATCH}",
            hint="for example selfspec:batch=4",
        )
    return size


def with_batch(arm: str, size: int) -> str:
    """`arm` at a batch size of `size`, unless it names one itself; a size of 1 is not written."""
    if size == 1 or BATCH in split_arm(arm)[1]:
        return arm
    return f"{arm}{',' if ':' in arm else ':'}{BATCH}={size}"


def without_batch(arm: str) -> str:
    """`arm` as it reads at a batch size of 1."""
    name, options = split_arm(arm)
    kept = ",".join(f"{key}={value}" for key, value in options.items() if key != BATCH)
    return f"{name}:{kept}" if kept else name


def is_ar(arm: str) -> bool:
    """Whether the arm is plain autoregression, at whatever batch size."""
    return split_arm(arm)[0] == AR


def base_of(arm: str, arms: Collection[str]) -> str | None:
    """The arm of `arms` that `arm` is measured against.

    The autoregressive one of the same batch size; failing that, and for an autoregressive arm itself,
    plain `ar`; `None` when there is neither.
    """
    for base in (with_batch(AR, batch_of(arm)), AR):
        if base in arms and base != arm:
            return base
    return None
