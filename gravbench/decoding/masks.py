"""Who sees whom among the rows of one window; every row also sees the whole cache.

| builder     | rows of the window                                                             |
|-------------|--------------------------------------------------------------------------------|
| causal      | row i sees rows <= i                                                           |
| window      | the first `pre` rows are causal; every later row sees all rows of the window   |
| block       | every row sees every row                                                       |
| tree        | a row sees itself and its ancestors                                            |
| groups      | causal rows, then blocks that each see a beginning of them and themselves      |

A boundary row before a block is causal, so its keys, values and logits are exactly the autoregressive
ones and may be kept. This file defines visibility; turning it into tensors is the model's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

WORD = 64
"""Bits of one word of a packed row."""


@dataclass(frozen=True, slots=True)
class Mask:
    """Bit k of `vis[i]`: row i sees row k (with `Window.slots`: whatever lies in slot k)."""

    vis: tuple[int, ...]
    reflexive: bool = field(init=False, compare=False)
    """Every row sees itself, where row i lies in slot i."""
    span: int = field(init=False, compare=False)
    """1 + the last slot that any row sees."""
    reach: tuple[int, ...] | None = field(init=False, compare=False)
    """How many slots each row sees, where every row sees the first ones and no other; else `None`."""

    def __post_init__(self) -> None:
        if any(bits < 0 for bits in self.vis):
            raise ValueError("a row of a mask is a set of bits, not a negative number")
        object.__setattr__(self, "reflexive", all(bits >> row & 1 for row, bits in enumerate(self.vis)))
        reach = tuple(bits.bit_length() for bits in self.vis)
        object.__setattr__(self, "span", max(reach, default=0))
        prefixes = not any(bits & bits + 1 for bits in self.vis)
        object.__setattr__(self, "reach", reach if prefixes else None)

    def sees(self, query: int, key: int) -> bool:
        """Whether row `query` of the window attends to row `key` of the window."""
        return bool(self.vis[query] >> key & 1)


@lru_cache(maxsize=1024)
def causal(rows: int) -> Mask:
    """CAUSAL: row i sees rows <= i."""
    return Mask(tuple((2 << row) - 1 for row in range(rows)))


@lru_cache(maxsize=1024)
def window(pre: int, rows: int) -> Mask:
    """WINDOW(pre): `pre` leading causal rows, then rows that see the whole window."""
    every = (1 << rows) - 1
    return Mask(tuple((2 << row) - 1 if row < pre else every for row in range(rows)))


def block(rows: int) -> Mask:
    """BLOCK: every row sees every row."""
    return window(0, rows)


def tree(parents: Sequence[int | None]) -> Mask:
    """TREE: row i sees itself and its ancestors. `parents[i]` < i is a row, or `None` for a root."""
    vis: list[int] = []
    for row, parent in enumerate(parents):
        if parent is not None and not 0 <= parent < row:
            raise ValueError(f"the parent of row {row} is {parent}, expected an earlier row")
        vis.append((vis[parent] if parent is not None else 0) | 1 << row)
    return Mask(tuple(vis))


def groups(rows: int, blocks: Iterable[tuple[int, int]]) -> Mask:
    """`rows` causal rows, then one block for each `(seen, size)`: `size` rows that see the first `seen`
    causal rows and each other, and no other block."""
    vis = list(causal(rows).vis)
    for seen, size in blocks:
        if not 0 <= seen <= rows:
            raise ValueError(f"a group sees {seen} of {rows} rows")
        own = ((1 << size) - 1) << len(vis)
        vis += [(1 << seen) - 1 | own] * size
    return Mask(tuple(vis))


def visible(mask: Mask) -> list[list[bool]]:
    """The square table of `mask.sees`, row by row."""
    return [[mask.sees(query, key) for key in range(len(mask.vis))] for query in range(len(mask.vis))]


@lru_cache(maxsize=1024)
def packed(mask: Mask, words: int) -> tuple[tuple[int, ...], ...]:
    """`mask` as `words` columns of signed 64-bit words, the lowest slots first: column w, then row."""
    if mask.span > words * WORD:
        raise ValueError(f"{words} words hold no mask that spans {mask.span} slots")
    return tuple(tuple(_signed(bits >> WORD * word) for bits in mask.vis) for word in range(words))


def _signed(bits: int) -> int:
    """The lowest 64 bits in two's complement, as a tensor of 64-bit integers holds them."""
    low = bits & (1 << WORD) - 1
    return low - (1 << WORD) if low >> (WORD - 1) else low
