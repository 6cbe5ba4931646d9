"""Which masked slots of a block are revealed in a step of block diffusion.

| rule               | revealed in step s                                                             |
|--------------------|--------------------------------------------------------------------------------|
| `static`           | the n_s surest                                                                 |
| `dynamic`          | H if it has n_s slots or more, else the n_s surest (SDAR, MinerU-Diffusion)    |
| `threshold`        | H, else the surest one (GravityOCR, Fast-dLLM)                                 |
| `sequential`       | the leftmost n_s                                                               |
| `entropy`          | by ascending entropy, as many as sum to less than `bound`, one at least (SDAR) |
| `cosine`           | floor(N cos(pi s / 2T)) slots are left masked, one or more is revealed         |
| `cosine+threshold` | as many surest slots as the larger of both says                                |

H = slots whose chosen token has a probability above `tau`. n_s = N // T, one more in the first N mod T
steps, and at least 1. Of equals the lower slot comes first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Rule = Literal["static", "dynamic", "threshold", "sequential", "entropy", "cosine", "cosine+threshold"]


@dataclass(frozen=True, slots=True)
class Selection:
    """A rule for `total` slots in `steps` steps."""

    rule: Rule
    total: int
    steps: int
    tau: float
    bound: float

    def reveal(self, step: int, sure: Mapping[int, float], entropy: Mapping[int, float]) -> list[int]:
        """Slots to reveal in `step` (from 0), ascending, of the masked ones, which are the keys of `sure`.

        `sure`: probability of the chosen token. `entropy`: in nats, read by the rule of that name alone.
        """
        above = sum(chance > self.tau for chance in sure.values())
        count = {
            "static": self._quota(step),
            "dynamic": max(above, self._quota(step)),
            "threshold": max(above, 1),
            "sequential": self._quota(step),
            "entropy": self._bounded(entropy),
            "cosine": self._cosine(step),
            "cosine+threshold": max(above, self._cosine(step)),
        }[self.rule]
        if self.rule == "sequential":
            order = sorted(sure)
        elif self.rule == "entropy":
            order = sorted(sure, key=lambda slot: (entropy[slot], slot))
        else:
            order = sorted(sure, key=lambda slot: (-sure[slot], slot))
        return sorted(order[:count])

    def _quota(self, step: int) -> int:
        each, more = divmod(self.total, self.steps)
        return max(each + (step < more), 1)

    def _bounded(self, entropy: Mapping[int, float]) -> int:
        spent, count = 0.0, 0
        for one in sorted(entropy.values()):
            spent += one
            if spent >= self.bound:
                break
            count += 1
        return max(count, 1)

    def _cosine(self, step: int) -> int:
        return max(self._left(step) - self._left(step + 1), 1)

    def _left(self, step: int) -> int:
        """Masked slots after `step` steps; the nudge keeps a cosine of 0 from being a hair above it."""
        return math.floor(self.total * math.cos(math.pi * min(step, self.steps) / (2 * self.steps)) + 1e-9)
