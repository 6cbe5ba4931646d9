"""Endless training crops, in micro-batches of like size, as a function of (seed, rank, kind, index).

Padding a batch to its largest crop would waste half of the compute: a group of crops is drawn at once,
sorted by size and cut into micro-batches, which are then handed out in random order.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gravbench.workshop.synth import render_crop
from gravbench.workshop.training.batches import Example, Lexicon, make_example
from gravbench.workshop.training.schedule import EXAMPLES, KINDS

GROUP = 8
"""Micro-batches that share one draw."""


@dataclass(slots=True)
class CropStream:
    """Micro-batches by kind and index; the group last drawn of each kind is kept."""

    lexicon: Lexicon
    seed: int
    rank: int
    _groups: dict[str, tuple[int, list[list[Example]]]] = field(default_factory=dict)

    def micro_batch(self, kind: str, index: int) -> list[Example]:
        """The `index`-th micro-batch of `kind` (0-based); cheap when asked in order."""
        group, place = divmod(index, GROUP)
        kept = self._groups.get(kind)
        if kept is None or kept[0] != group:
            kept = self._groups[kind] = (group, self._draw(kind, group))
        return kept[1][place]

    def _draw(self, kind: str, group: int) -> list[list[Example]]:
        rng = np.random.default_rng((self.seed, self.rank, KINDS.index(kind), group))
        size = EXAMPLES[kind]
        seeds = rng.integers(0, 2**62, GROUP * size)
        examples = [make_example(render_crop(kind, int(s), "train"), self.lexicon) for s in seeds]
        examples.sort(key=lambda e: (len(e.patches), len(e.response)))
        batches = [examples[i * size : (i + 1) * size] for i in range(GROUP)]
        return [batches[i] for i in rng.permutation(GROUP)]
