from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from zss import Node, distance

from gravbench.metrics import tree_distance as module
from gravbench.metrics.tree_distance import LabelledTree, aligned_distance, tree_distance


def random_tree(rng: random.Random, size: int) -> Node:
    nodes = [Node(rng.randrange(4))]
    for _ in range(size - 1):
        child = Node(rng.randrange(4))
        rng.choice(nodes[-6:]).addkid(child)
        nodes.append(child)
    return nodes[0]


def flatten(root: Node) -> LabelledTree:
    leftmost: list[int] = []
    labels: list[int] = []

    def visit(node: Node) -> None:
        first = len(labels)
        for child in node.children:
            visit(child)
        leftmost.append(first)
        labels.append(node.label)

    visit(root)
    return LabelledTree(leftmost, labels)


@pytest.mark.parametrize("compiled", [False, True])
def test_random_trees_equal_zss_in_plain_python_and_compiled(
    compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PLAIN_STEPS", 0 if compiled else 10**9)
    if not compiled:
        module._compiled_kernel.cache_clear()
    rng = random.Random(11)
    costs = np.array([[abs(a - b) / 3 for b in range(4)] for a in range(4)])
    for _ in range(60):
        first, second = (random_tree(rng, rng.randint(1, 18)) for _ in range(2))
        expected = distance(
            first, second, Node.get_children, lambda _: 1, lambda _: 1, lambda a, b: costs[a.label, b.label]
        )
        assert tree_distance(flatten(first), flatten(second), costs) == pytest.approx(expected, abs=1e-12)


def test_both_kernels_give_the_same_bits() -> None:
    rng = random.Random(12)
    costs = np.array([[abs(a - b) / 7 for b in range(4)] for a in range(4)])
    for _ in range(40):
        first, second = (flatten(random_tree(rng, rng.randint(1, 25))) for _ in range(2))
        arrays = [
            np.asarray(values, dtype=np.int64)
            for tree in (first, second)
            for values in (tree.leftmost, tree.keyroots(), tree.labels)
        ]
        plain = module._plain_zhang_shasha(first, second, costs.tolist())
        assert module._compiled_kernel()(*arrays, costs) == plain


def test_a_single_node_against_itself_costs_nothing() -> None:
    one = LabelledTree([0], [0])
    assert tree_distance(one, one, np.zeros((1, 1))) == 0.0


def test_without_a_writable_cache_the_kernel_still_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    import numba

    real = numba.njit

    def refuse_cache(signature: str, *, cache: bool = False):  # type: ignore[no-untyped-def]
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return real(signature)

    monkeypatch.setattr(numba, "njit", refuse_cache)
    kernel = module._compiled_kernel.__wrapped__()
    one = np.zeros(1, dtype=np.int64)
    assert kernel(one, one, one, one, one, one, np.full((1, 1), 0.25)) == 0.25


@given(st.integers(0, 10_000), st.integers(1, 20), st.floats(0.0, 0.4))
def test_few_renamings_in_one_shape_cost_what_the_kernel_says_to_the_bit(
    seed: int, size: int, dearest: float
) -> None:
    rng = random.Random(seed)
    tree = flatten(random_tree(rng, size))
    other = LabelledTree(tree.leftmost, [rng.randrange(4) for _ in range(size)])
    costs = np.array([[0.0 if a == b else dearest / rng.randint(1, 9) for b in range(4)] for a in range(4)])
    renamings = [float(costs[a, b]) for a, b in zip(tree.labels, other.labels, strict=True)]
    found = aligned_distance(tree.leftmost, renamings)
    assert (found is None) == (sum(renamings) >= 1.999999)
    assert found is None or found == module._plain_zhang_shasha(tree, other, costs.tolist())
