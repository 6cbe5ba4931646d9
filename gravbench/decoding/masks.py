"""Who sees whom among the rows of one window; every row also sees the whole cache.

| name        | rows of the window                                                             |
|-------------|--------------------------------------------------------------------------------|
| CAUSAL      | row i sees rows <= i                                                           |
| WINDOW(pre) | the first `pre` rows are causal; every later row sees all rows of the window   |
| BLOCK       | every row sees every row                                                       |

A boundary row inside WINDOW(1) is causal, so its keys, values and logits are exactly the
autoregressive ones and may be kept. This file defines visibility; turning it into a tensor is the
model's business.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mask:
    """Visibility inside a window: rows before `causal_rows` are causal, later ones see every row."""

    name: str
    causal_rows: int | None
    """Number of leading causal rows; `None` means all of them, whatever the window's length."""

    def sees(self, query: int, key: int) -> bool:
        """Whether row `query` of the window attends to row `key` of the window."""
        causal = self.causal_rows is None or query < self.causal_rows
        return key <= query if causal else True


CAUSAL = Mask("causal", None)
BLOCK = Mask("block", 0)


def window(causal_rows: int) -> Mask:
    """WINDOW(pre): `causal_rows` leading causal rows, then rows that see the whole window."""
    return Mask(f"window({causal_rows})", causal_rows)


WINDOW_1 = window(1)


def visible(mask: Mask, rows: int) -> list[list[bool]]:
    """The `rows` x `rows` table of `mask.sees`; empty for no rows."""
    return [[mask.sees(query, key) for key in range(rows)] for query in range(rows)]
