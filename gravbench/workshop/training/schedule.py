"""What to train on, and how fast, as functions of training progress in [0, 1]."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

KINDS: tuple[str, ...] = ("short", "line", "paragraph", "table", "formula")
EXAMPLES: dict[str, int] = {"short": 20, "line": 12, "paragraph": 5, "table": 5, "formula": 12}
"""Crops of one micro-batch: about 2,000 decoder rows each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curriculum:
    """Stage borders as shares of the budget.

    Until `vision_only` the image features learn alone; until `alignment` mostly short text; then the full
    mix, which never drops lines. From `decay` on the learning rate falls linearly to zero.
    """

    vision_only: float = 0.04
    alignment: float = 0.16
    decay: float = 0.5

    def micro_batches(self, progress: float, rng: np.random.Generator) -> tuple[str, ...]:
        """Kinds of the micro-batches of one step."""
        if progress < self.vision_only:
            return ("line", str(rng.choice(["short", "paragraph", "table"])))
        if progress < self.alignment:
            return ("short", "line", str(rng.choice(["short", "formula", "table"], p=[0.4, 0.3, 0.3])))
        text = str(rng.choice(["short", "line", "paragraph"], p=[0.25, 0.45, 0.3]))
        return (text, str(rng.choice(["table", "formula", "line"], p=[0.4, 0.35, 0.25])))

    def rate(self, progress: float, *, warmup: float = 0.005) -> float:
        """Learning-rate factor in [0, 1]: warm-up, stable, linear decay."""
        if progress < warmup:
            return progress / warmup
        if progress < self.decay:
            return 1.0
        return max(0.0, (1.0 - progress) / (1.0 - self.decay))


FROM_CHECKPOINT = Curriculum(vision_only=0.0, alignment=0.0, decay=0.1)
"""A model that reads already: the full mix from the first step, decay nearly throughout."""
