"""`tree` verifies many continuations in one forward and changes no token."""

import math
from collections.abc import Callable
from itertools import product

import pytest
from strategy_support import (
    LONG,
    check_on_checkpoint,
    on_toy,
)

from gravbench.backends.toy import EOS
from gravbench.backends.transformers_local import TransformersLocal
from gravbench.decoding.candidates import best_first
from gravbench.decoding.costs import Costs
from gravbench.decoding.rows import TopK
from gravbench.decoding.tree import best_size
from gravbench.errors import UsageError
from gravbench.records import Request


def test_one_branch_is_the_chain_of_selfspec() -> None:
    for wrong in ((), (2,), (1, 3)):
        _, chain, as_chain = on_toy(LONG, "selfspec:block=6", budget=60, wrong_slots=wrong)
        _, tree, as_tree = on_toy(LONG, "tree:block=6,branch=1,nodes=6", budget=60, wrong_slots=wrong)
        assert (as_tree.committed, as_tree.accepted) == (as_chain.committed, as_chain.accepted)
        assert tree.counters.kv_rows_freed == chain.counters.kv_rows_freed
        assert as_tree.nodes == tuple(offered and 7 for offered in as_tree.offered)
        assert as_chain.nodes is None


def test_the_walk_takes_the_second_choice_where_the_verifier_does() -> None:
    found = best_first(9, TopK([[1, 2], [3, 4]], [[-0.1, -0.2], [-0.1, -0.2]]), 6)
    follows = {9: 2, 2: 4, 4: 7}  # what the verifier says after each token
    path = found.walk([follows.get(token, 0) for token in found.tokens])
    assert [found.tokens[node] for node in path] == [9, 2, 4]


def test_the_tree_is_the_best_set_of_paths() -> None:
    """Against every path of every length, scored by hand."""
    marginals = TopK([[1, 2, 3], [4, 5], [6, 7]], [[-0.1, -1.0, -3.0], [-0.3, -1.3], [-0.2, -2.0]])
    scored = []
    for depth in (1, 2, 3):
        for ranks in product(*(range(len(row)) for row in marginals.tokens[:depth])):
            score = sum(marginals.logp[k][rank] for k, rank in enumerate(ranks))
            scored.append((-score, tuple(marginals.tokens[k][rank] for k, rank in enumerate(ranks))))
    for nodes in range(1, len(scored) + 3):
        found = best_first(9, marginals, nodes)
        paths = set()
        for node in range(1, len(found.tokens)):
            at: int | None = node
            path: list[int] = []
            while at:
                path.insert(0, found.tokens[at])
                at = found.parents[at]
            assert len(path) == found.depths[node]
            paths.add(tuple(path))
        assert paths == {path for _, path in sorted(scored)[:nodes]}


def test_a_node_that_ends_the_answer_has_no_children() -> None:
    found = best_first(9, TopK([[0, 1], [2, 3]], [[-0.1, -5.0], [-0.1, -0.2]]), 4, stops=(0,))
    assert all(found.tokens[parent] != 0 for parent in found.parents if parent is not None)


def test_a_checkpoint_without_a_mask_token_grows_no_tree() -> None:
    with pytest.raises(UsageError, match=r"block_diffusion\.json"):
        on_toy((EOS,), "tree", block_size=None)


def test_a_random_model_gives_the_ids_of_ar(
    backend: TransformersLocal, make_request: Callable[..., Request]
) -> None:
    for arm in ("tree:block=4,branch=3,nodes=15", "tree:block=8,branch=95,nodes=70"):
        traces = check_on_checkpoint(backend, make_request, arm, budget=40)
        counted = [trace.counters for trace in traces]
        assert sum(c.tree_nodes for c in counted) > sum(c.draft_offered for c in counted) > 0


def test_an_auto_budget_takes_the_size_of_the_best_rate() -> None:
    sure = best_first(9, TopK([[1, 2], [3, 4]], [[-0.01, -5.0], [-0.01, -5.0]]), 6)
    flat = best_first(9, TopK([[1, 2], [3, 4]], [[-0.7, -0.7], [-0.7, -0.7]]), 6)
    steep = Costs((1, 2), (1.0, 2.0))
    level = Costs((1, 2), (1.0, 1.0))
    assert best_size(sure, 2, steep)[0] == 1 < best_size(flat, 2, level)[0] == 6
    size, promised = best_size(flat, 2, level)
    assert promised == pytest.approx(sum(math.exp(score) for score in flat.scores[1 : size + 1]))
    flat.cut(3)
    assert len(flat.tokens) == len(flat.parents) == 4 and set(flat.children.values()) == {1, 2, 3}
