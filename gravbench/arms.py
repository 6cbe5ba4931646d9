"""An arm is written `id:option=value,...`; this file reads that without knowing any strategy.

`batch=N` is understood for every id: N requests decode together. An arm has two bases. Text should not depend
on the batch, so any `ar` arm will do for identity and quality. Speed does: the base of `selfspec:batch=4` is
`ar:batch=4`, or there is none. Both draw tokens as the arm does: with its temperature and its seed, if any.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache

from gravbench.errors import UsageError

AR = "ar"
BATCH = "batch"
MAX_BATCH = 1024
SAMPLING = ("seed", "temperature", "top_k", "top_p")
"""Options that say how tokens are drawn, understood for every id that verifies exactly."""


@dataclass(frozen=True, slots=True)
class Arm:
    """An arm, read once. `options` are all of them, in the order written, `batch` and `block` included."""

    text: str
    strategy: str
    """The strategy's id."""
    options: tuple[tuple[str, str], ...]
    batch: int
    """Requests that decode together."""
    block: int | None
    """The block size the arm asks for; `None` when it asks for none."""

    @property
    def sampling(self) -> tuple[tuple[str, str], ...]:
        """How tokens are drawn, by option; empty where the likeliest one is taken."""
        return tuple(sorted(option for option in self.options if option[0] in SAMPLING))

    @property
    def is_ar(self) -> bool:
        """Whether it is plain autoregression, at whatever batch size."""
        return self.strategy == AR


@lru_cache(maxsize=1024)
def parse_arm(text: str) -> Arm:
    """`UsageError` where an option is not written `option=value`, or twice, or a batch is not 1 to 1024."""
    name, colon, tail = text.partition(":")
    options: dict[str, str] = {}
    for part in tail.split(",") if colon else ():
        key, equals, value = part.partition("=")
        if not (key and equals and value):
            raise UsageError(f"strategy '{text}': expected option=value, got '{part}'")
        if key in options:
            raise UsageError(f"strategy '{text}': option '{key}' is given twice")
        options[key] = value
    batch = _number(options.get(BATCH, "1"))
    if batch is None or not 1 <= batch <= MAX_BATCH:
        raise UsageError(
            f"strategy '{text}': batch is '{options[BATCH]}', expected an integer from 1 to {MAX_BATCH}",
            hint="for example selfspec:batch=4",
        )
    return Arm(text, name, tuple(options.items()), batch, _number(options.get("block", "")))


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else None


def batch_of(arm: str) -> int:
    """Requests of an arm that decode together, 1 by default."""
    return parse_arm(arm).batch


def with_batch(arm: str, size: int) -> str:
    """`arm` at a batch size of `size`, unless it names one itself; a size of 1 is not written."""
    if size == 1 or BATCH in dict(parse_arm(arm).options):
        return arm
    return f"{arm}{',' if ':' in arm else ':'}{BATCH}={size}"


def without_batch(arm: str) -> str:
    """`arm` as it reads at a batch size of 1."""
    read = parse_arm(arm)
    kept = ",".join(f"{key}={value}" for key, value in read.options if key != BATCH)
    return f"{read.strategy}:{kept}" if kept else read.strategy


def is_ar(arm: str) -> bool:
    """Whether the arm is plain autoregression, at whatever batch size."""
    return parse_arm(arm).is_ar


def canonical(arm: str) -> str:
    """The one spelling of an arm: options by name and `batch` last, whole numbers without leading zeros, a
    batch of 1 left out."""
    read = parse_arm(arm)
    kept = ",".join(f"{key}={_plain(value)}" for key, value in sorted(read.options) if key != BATCH)
    return with_batch(f"{read.strategy}:{kept}" if kept else read.strategy, read.batch)


def _plain(value: str) -> str:
    return (value.lstrip("0") or "0") if value.isascii() and value.isdigit() else value


def ar_arms(arms: Collection[str]) -> list[str]:
    """The autoregressive arms among `arms`, the smallest batch first."""
    return sorted(filter(is_ar, arms), key=lambda arm: (batch_of(arm), arm))


def _drawn_alike(arm: str, arms: Collection[str]) -> list[str]:
    """The autoregressive arms that draw tokens as `arm` does, the smallest batch first."""
    own = parse_arm(arm).sampling
    return [ar for ar in ar_arms(arms) if parse_arm(ar).sampling == own]


def identity_base(arm: str, arms: Collection[str]) -> str | None:
    """The arm that text, tokens and quality of `arm` are held against.

    The `ar` arm of the same batch size, else plain `ar`, else the `ar` arm of the smallest batch. An `ar` arm
    is held against the smallest, which itself has no base.
    """
    found = _drawn_alike(arm, arms)
    first = next(iter(found), None)
    if is_ar(arm):
        return first if first != arm else None
    return next((ar for ar in found if batch_of(ar) == batch_of(arm)), first)


def text_base(arm: str, arms: Sequence[str]) -> str | None:
    """The arm that text and quality are shown against: `identity_base`, and without any `ar` the first."""
    if ar_arms(arms):
        return identity_base(arm, arms)
    return arms[0] if arms and arms[0] != arm else None


def speed_base(arm: str, arms: Collection[str]) -> str | None:
    """The arm that times of `arm` are held against: the `ar` arm of the same batch size alone.

    `ar:batch=N` is held against plain `ar`, which gives the gain of batching and is no speedup of drafting.
    """
    wanted = 1 if is_ar(arm) else batch_of(arm)
    found = next((ar for ar in _drawn_alike(arm, arms) if batch_of(ar) == wanted), None)
    return found if found != arm else None
