"""TEDS and TEDS-S of a pair of tables in normal form, with the cost model and digits of OmniDocBench v1.6.

TEDS = 1 - distance / N, where distance is the ordered tree edit distance (insert 1, delete 1, rename 1 if
tag or spans differ, else for cells the normalised Levenshtein distance of their tokens, else 0) and N the
larger number of descendant elements. 1 is best; values below 0 are possible and not clipped. TEDS-S is
the same with empty cells. An empty string, or no table, on either side scores 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist

from gravbench.metrics.table_tree import NodeLabel, TableTree, TagCodes, build_tree, find_table, plain_tree
from gravbench.metrics.tree_distance import Floats, LabelledTree, aligned_distance, tree_distance

# Budgets count work, never time. The official scorer gives a pair 120 s for both scores and then 0; its
# pure Python APTED needs some 25 microseconds a pair of nodes, so each of these lies far beyond its limit.
MAX_NODE_PAIRS = 40_000_000  # memory: 16 bytes each
MAX_TREE_STEPS = 4_000_000_000  # inner steps of the tree kernel
MAX_CONTENT_STEPS = 4_000_000_000  # 64-character steps of all cell comparisons
MAX_SOURCE_CHARS = 20_000_000  # both sources together, in characters ...
MAX_SOURCE_TAGS = 500_000  # ... and in tags and references
# From here on a slow machine (60 microseconds a pair of nodes, twice) may have run into the official limit.
OFFICIAL_LIMIT_NODE_PAIRS = 1_000_000


@dataclass(frozen=True, slots=True)
class TedsResult:
    """Scores of one pair.

    `raises` names the exception that ends the official scorer on this pair, or the exhausted budget
    ("NodeBudget"); both scores are then 0. `nodes_*` are the tree sizes, 0 where no tree was built.
    `may_have_timed_out`: the official time limit could have turned the scores into 0.
    """

    teds: float
    teds_s: float
    raises: str | None = None
    nodes_gt: int = 0
    nodes_pred: int = 0
    may_have_timed_out: bool = False


def teds_pair(gt: str, pred: str) -> TedsResult:
    """Both scores of ground truth `gt` and prediction `pred`: normal forms, or raw strings without one."""
    if not gt or not pred:
        return TedsResult(0.0, 0.0)
    if len(gt) + len(pred) > MAX_SOURCE_CHARS or _tags(gt) + _tags(pred) > MAX_SOURCE_TAGS:
        return TedsResult(0.0, 0.0, "NodeBudget", may_have_timed_out=True)
    codes = TagCodes()
    try:
        tree_pred = _tree(pred, codes)
        tree_gt = tree_pred if gt == pred else _tree(gt, codes)
    except _NothingToParseError:
        return TedsResult(0.0, 0.0, raises="ParserError")
    except ValueError as error:
        return TedsResult(0.0, 0.0, raises=type(error).__name__)
    return TedsResult(0.0, 0.0) if tree_pred is None or tree_gt is None else _score_trees(tree_gt, tree_pred)


class _NothingToParseError(Exception):
    """lxml's ParserError."""


def _tree(source: str, codes: TagCodes) -> TableTree | None:
    if (plain := plain_tree(source)) is not None:
        return plain
    from lxml.etree import ParserError

    try:
        table = find_table(source)
    except ParserError as error:
        raise _NothingToParseError from error
    return None if table is None else build_tree(table, codes)


def _score_trees(gt: TableTree, pred: TableTree) -> TedsResult:
    nodes_gt, nodes_pred = len(gt.labels), len(pred.labels)
    larger = max(gt.n_nodes, pred.n_nodes)
    if larger == 0:  # two tables without any element: the official scorer divides by 0
        return TedsResult(0.0, 0.0, "ZeroDivisionError", nodes_gt, nodes_pred)
    slow = nodes_gt * nodes_pred >= OFFICIAL_LIMIT_NODE_PAIRS
    if gt == pred:
        return TedsResult(1.0, 1.0, None, nodes_gt, nodes_pred, slow)
    distances = _distances_of_one_shape(gt, pred) or _distances(gt, pred)
    if distances is None:
        return TedsResult(0.0, 0.0, "NodeBudget", nodes_gt, nodes_pred, True)
    teds, teds_s = (1.0 - distance / larger for distance in distances)
    return TedsResult(teds, teds_s, None, nodes_gt, nodes_pred, slow)


def _distances(gt: TableTree, pred: TableTree) -> tuple[float, float] | None:
    """With and without cell text; None beyond a budget."""
    with_content = _LabelCosts(gt.labels, pred.labels)
    structure = _LabelCosts(_without_content(gt.labels), _without_content(pred.labels))
    trees = LabelledTree(gt.leftmost, with_content.ids_gt), LabelledTree(pred.leftmost, with_content.ids_pred)
    if not _within_budget(trees, with_content):
        return None
    distance = tree_distance(*trees, with_content.matrix())
    bare = LabelledTree(gt.leftmost, structure.ids_gt), LabelledTree(pred.leftmost, structure.ids_pred)
    same = gt.leftmost == pred.leftmost and structure.aligned()
    return distance, 0.0 if same else tree_distance(*bare, structure.matrix())


# Far within the budgets, whatever the shape.
_SMALL_NODE_PAIRS = 60_000
_SMALL_CONTENT = 100_000


def _distances_of_one_shape(gt: TableTree, pred: TableTree) -> tuple[float, float] | None:
    """`_distances` of small tables of the same shape that differ little; None for all others."""
    if gt.leftmost != pred.leftmost or len(gt.labels) ** 2 > _SMALL_NODE_PAIRS:
        return None
    if sum(len(label.content) for label in (*gt.labels, *pred.labels)) > _SMALL_CONTENT:
        return None
    pairs = list(zip(gt.labels, pred.labels, strict=True))
    found = aligned_distance(gt.leftmost, [_renaming(a, b) for a, b in pairs])
    bare = aligned_distance(gt.leftmost, [float(_kind(a) != _kind(b)) for a, b in pairs])
    return None if found is None or bare is None else (found, bare)


def _kind(label: NodeLabel) -> tuple[str, int | None, int | None]:
    return label.tag, label.colspan, label.rowspan


def _renaming(a: NodeLabel, b: NodeLabel) -> float:
    """As in the matrix of `_LabelCosts`."""
    if _kind(a) != _kind(b):
        return 1.0
    if a.content == b.content:
        return 0.0
    return int(Levenshtein.distance(a.content, b.content)) / max(len(a.content), len(b.content))


def _tags(source: str) -> int:
    return source.count("<") + source.count("&")


def _without_content(labels: Sequence[NodeLabel]) -> list[NodeLabel]:
    return [NodeLabel(label.tag, label.colspan, label.rowspan) for label in labels]


def _within_budget(trees: tuple[LabelledTree, LabelledTree], costs: _LabelCosts) -> bool:
    first, second = trees
    return (
        len(first.labels) * len(second.labels) <= MAX_NODE_PAIRS
        and first.relevant_size() * second.relevant_size() <= MAX_TREE_STEPS
        and costs.content_steps() <= MAX_CONTENT_STEPS
    )


class _LabelCosts:
    """Distinct labels of both trees, their ids along the nodes, and the matrix of renaming costs."""

    def __init__(self, gt: Sequence[NodeLabel], pred: Sequence[NodeLabel]) -> None:
        self.distinct_gt, self.ids_gt = _distinct(gt)
        self.distinct_pred, self.ids_pred = _distinct(pred)

    def aligned(self) -> bool:
        """Whether both sides have the same labels, node by node."""
        return self.distinct_gt == self.distinct_pred and self.ids_gt == self.ids_pred

    def content_steps(self) -> int:
        """64-character steps that comparing every content with every other takes at most."""
        rows = sum(-(-len(label.content) // 64) for label in self.distinct_gt)
        return rows * sum(len(label.content) for label in self.distinct_pred)

    def matrix(self) -> Floats:
        """Renaming costs, distinct ground-truth labels by distinct predicted labels, each in [0, 1]."""
        contents = [[label.content for label in side] for side in (self.distinct_gt, self.distinct_pred)]
        edits = cdist(*contents, scorer=Levenshtein.distance, dtype=np.int32, workers=1)
        lengths = [np.array([len(text) for text in side], dtype=np.int64) for side in contents]
        longer = np.maximum(np.maximum.outer(*lengths), 1)
        groups: dict[tuple[str, int | None, int | None], int] = {}
        kinds = [
            np.array([groups.setdefault(_kind(x), len(groups)) for x in side])
            for side in (self.distinct_gt, self.distinct_pred)
        ]
        costs: Floats = np.where(np.not_equal.outer(*kinds), 1.0, edits / longer)
        return costs


def _distinct(labels: Sequence[NodeLabel]) -> tuple[list[NodeLabel], list[int]]:
    ids: dict[NodeLabel, int] = {}
    along = [ids.setdefault(label, len(ids)) for label in labels]
    return list(ids), along
