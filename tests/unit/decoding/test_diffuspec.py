"""`diffuspec` chooses a path through the lattice, and its length by what was accepted."""

from itertools import pairwise, product
from math import log

import pytest
from strategy_support import LONG, on_toy

from gravbench.decoding.diffuspec import DiffuSpec, Slot, _Document, best_path
from gravbench.decoding.protocols import ModelInfo

INFO = ModelInfo(eos_token_ids=(0,), vocab_size=20, max_positions=64, mask_token_id=1, block_size=4)


@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0])
def test_a_wide_beam_finds_the_best_path_of_all(weight: float) -> None:
    lattice: list[Slot] = [{2: log(0.5), 3: log(0.4), 0: log(0.01)}, {4: log(0.6), 5: log(0.3), 0: -9.0}]
    document = _Document(4, 4)
    document.read([9, 3, 5, 3, 5, 2, 4, 9, 3])
    seen = [9, 3, 5, 3, 5, 2, 4, 9, 3]

    def score(path: tuple[int, ...]) -> float:
        total = 0.0
        for place, (slot, token) in enumerate(zip(lattice, path, strict=False)):
            before = path[place - 1] if place else 9
            pairs = sum(a == before and b == token for a, b in pairwise(seen))
            firsts = sum(a == before for a in seen[:-1])
            total += weight * slot[token] + (1 - weight) * log((pairs + 1) / (firsts + 20))
        return total / len(path)

    paths = [p for p in product(*lattice) if p[0] != 0] + [(0,)]
    found = best_path(DiffuSpec(beam=9, weight=weight), lattice, 9, document, INFO)
    assert score(tuple(found)) == pytest.approx(max(map(score, paths)))


def test_the_length_grows_while_drafts_are_accepted_and_not_beyond_the_block() -> None:
    _, _, rounds = on_toy(LONG, "diffuspec:block=8,least=2,step=2,weight=1", budget=80)
    lengths = [offered for offered in rounds.offered if offered]
    assert lengths[0] == 4 and lengths[-1] == 8 and lengths == sorted(lengths)


def test_rejected_drafts_keep_it_short() -> None:
    _, _, rounds = on_toy(LONG, "diffuspec:block=8,least=2,step=2,weight=1", budget=80, wrong_slots=(1,))
    assert max(rounds.offered) == 4
