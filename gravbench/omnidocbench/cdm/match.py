"""Which predicted tokens stand where the true ones do: assignment, then the geometric check (CDM).

Recall, precision and F1 are the official ones, rounded to three decimals per formula. The outlier removal
re-seeds its generator for every round, so the 500 index pairs depend on the number of points alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from gravbench.metrics.assignment import linear_sum_assignment
from gravbench.omnidocbench.cdm.raster import Box, Boxes

SEED = 2026
TRIALS = 500
ROUNDS = 5
RADIUS_PX = 30.0
ALIAS_COST = 0.005
_POSITION_WEIGHT = 0.05
_ORDER_WEIGHT = 0.15
_DOTS = (r"\dot", r"\Dot", r"\cdot", r"\cdotp", r"\ldotp")
_ALIASES = {
    **dict.fromkeys(_DOTS, "."),
    r"\mid": "|",
    r"\rightarrow": r"\to",
    r"\top": "T",
    r"\Tilde": r"\tilde",
    r"\prime": "'",
    r"\ast": "*",
    r"\left<": r"\langle",
    r"\right>": r"\rangle",
    r"\lbrace": r"\{",
    r"\rbrace": r"\}",
    r"\lbrack": "[",
    r"\rbrack": "]",
    r"\blackslash": "/",
    r"\slash": "/",
    r"\leq": r"\le",
    r"\geq": r"\ge",
    r"\neq": r"\not=",
    r"\Vert": r"\|",
    r"\lVert": r"\|",
    r"\rVert": r"\|",
    r"\vert": "|",
    r"\lvert": "|",
    r"\rvert": "|",
    r"\colon": ":",
    r"\Ddot": r"\ddot",
    r"\Bar": r"\bar",
    r"\Vec": r"\vec",
    r"\parallel": r"\|",
    r"\dag": r"\dagger",
    r"\ddag": r"\ddagger",
    r"\textlangle": "<",
    r"\textrangle": ">",
    r"\textgreater": ">",
    r"\textless": "<",
    r"\textbackslash": "n",
    r"\textunderscore": "_",
    r"\=": "_",
    r"\neg": r"\lnot",
}

Points = NDArray[np.float64]
"""[tokens, 2] centres as (y, x)"""


@dataclass(frozen=True)
class Glyphs:
    """The tokens of one formula that have pixels, with their boxes, and the size of the image."""

    tokens: tuple[str, ...]
    boxes: tuple[Box, ...]
    width: int
    height: int


@dataclass(frozen=True)
class Counts:
    """Matched tokens against tokens with pixels on either side."""

    tp: int
    gt_tokens: int
    pred_tokens: int

    @property
    def recall(self) -> float:
        """tp / gt_tokens to three decimals; 0 without ground truth."""
        return round(self.tp / self.gt_tokens, 3) if self.gt_tokens else 0.0

    @property
    def precision(self) -> float:
        """tp / pred_tokens to three decimals; 0 without prediction."""
        return round(self.tp / self.pred_tokens, 3) if self.pred_tokens else 0.0

    @property
    def f1(self) -> float:
        """2 tp / (gt_tokens + pred_tokens) to three decimals; 0 when both are empty."""
        both = self.gt_tokens + self.pred_tokens
        return round(2 * self.tp / both, 3) if both else 0.0


def visible(tokens: Sequence[str], boxes: Boxes) -> Glyphs:
    """Tokens without pixels count on neither side."""
    pairs = [(token, box) for token, box in zip(tokens, boxes.boxes, strict=True) if box is not None]
    return Glyphs(
        tuple(token for token, _ in pairs), tuple(box for _, box in pairs), boxes.width, boxes.height
    )


def match(gt: Glyphs | None, pred: Glyphs | None) -> Counts:
    """Counts for a pair; `None` is a side that could not be rendered.

    Without true tokens every count is 0 (OmniDocBench v1.6), without predicted ones nothing matches.
    """
    if gt is None or not gt.tokens:
        return Counts(0, 0, 0)
    if pred is None or not pred.tokens:
        return Counts(0, len(gt.tokens), 0)
    return Counts(len(matched_pairs(gt, pred)), len(gt.tokens), len(pred.tokens))


def matched_pairs(gt: Glyphs, pred: Glyphs) -> list[tuple[int, int]]:
    """Places of the matched tokens among the glyphs of both sides; each side has some."""
    if gt == pred:
        return [(place, place) for place in range(len(gt.tokens))]
    token_cost = _token_cost(gt.tokens, pred.tokens)
    cost = token_cost + _POSITION_WEIGHT * _position_cost(gt, pred)
    cost += _ORDER_WEIGHT * _order_cost(len(gt.tokens), len(pred.tokens))
    cost[~np.isfinite(cost)] = 100
    true_index, pred_index = linear_sum_assignment(cost)
    accepted = _geometric_check(_centres(gt)[true_index], _centres(pred)[pred_index])
    accepted &= token_cost[true_index, pred_index] != 1
    return list(zip(true_index[accepted].tolist(), pred_index[accepted].tolist(), strict=True))


def canonical(token: str) -> str:
    """Name under which spelling variants of one sign are equal: `\\leq` and `\\le`, `\\left(` and `(`, ..."""
    if token.startswith((r"\left", r"\right")) and not any(
        part in token for part in ("arrow", "<", ">", "harpoon")
    ):
        token = token.replace(r"\left", "").replace(r"\right", "")
    if token.startswith((r"\big", r"\Big")):
        rest = token[4:]
        token = "\\" + rest.split("\\")[-1] if "\\" in rest else token[-1]
    token = _ALIASES.get(token, token)
    for prefix, removed in ((r"\wide", "wide"), (r"\var", "var"), (r"\string", r"\string")):
        if token.startswith(prefix):
            return token.replace(removed, "")
    return token


def _token_cost(gt: Sequence[str], pred: Sequence[str]) -> NDArray[np.float64]:
    """[gt, pred]: 0 for equal tokens, a little for equal canonical names, else 1."""
    names = _numbered([*gt, *pred])
    same = names[: len(gt), None] == names[None, len(gt) :]
    canonical_names = _numbered([canonical(token) for token in (*gt, *pred)])
    alike = canonical_names[: len(gt), None] == canonical_names[None, len(gt) :]
    return np.where(same, 0.0, np.where(alike, ALIAS_COST, 1.0))


def _numbered(names: Sequence[str]) -> NDArray[np.int64]:
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.int64)


def _position_cost(gt: Glyphs, pred: Glyphs) -> NDArray[np.float64]:
    """[gt, pred]: mean absolute difference of the four box coordinates, each side relative to its image."""
    sides = [
        np.array(glyphs.boxes, dtype=np.float64)
        / np.array([glyphs.width, glyphs.height, glyphs.width, glyphs.height])
        for glyphs in (gt, pred)
    ]
    distance = np.zeros((len(gt.boxes), len(pred.boxes)))
    for one, other in zip(sides[0].T, sides[1].T, strict=True):
        distance += np.abs(np.subtract.outer(one, other))
    return distance / 4


def _order_cost(gt: int, pred: int) -> NDArray[np.float64]:
    """[gt, pred]: difference of the positions in the token lists, relative to the longer one."""
    longer = max(gt, pred)
    distance: NDArray[np.float64] = np.abs(
        np.subtract.outer(np.arange(gt) / longer, np.arange(pred) / longer)
    )
    return distance


def _centres(glyphs: Glyphs) -> Points:
    left, top, right, bottom = np.array(glyphs.boxes, dtype=np.float64).T
    return np.stack([(top + bottom) / 2, (left + right) / 2], axis=1)


def _geometric_check(source: Points, target: Points) -> NDArray[np.bool_]:
    """Pairs that some shift and scale explains: up to five rounds, each on what the earlier ones left."""
    accepted = np.zeros(len(source), dtype=bool)
    if len(source) <= 2:
        return ~accepted
    for _ in range(ROUNDS):
        left = np.flatnonzero(~accepted)
        if len(left) <= 2:
            break
        inliers = _best_inliers(source[left], target[left])
        if not inliers.any():
            break
        accepted[left[inliers]] = True
    return accepted


def _best_inliers(source: Points, target: Points) -> NDArray[np.bool_]:
    """Inliers of the best of 500 two-point models: most inliers, then least residual over them, then first.

    A model moves the centroid of its two source points onto that of the two targets and scales by the ratio
    of mean radii, about the centroid of all points given.
    """
    pairs = _sample_pairs(len(source))
    from_points, to_points = source[pairs], target[pairs]  # [trials, 2, 2]
    from_centre, to_centre = from_points.mean(axis=1), to_points.mean(axis=1)  # [trials, 2]
    from_radius = np.sqrt(((from_points - from_centre[:, None]) ** 2).sum(axis=2)).mean(axis=1)
    to_radius = np.sqrt(((to_points - to_centre[:, None]) ** 2).sum(axis=2)).mean(axis=1)
    scale = to_radius / (from_radius + 1e-10)
    centre = source.mean(axis=0)
    moved = scale[:, None, None] * (source - centre) + centre + (to_centre - from_centre)[:, None]
    residual = np.sqrt(((moved - target) ** 2).sum(axis=2))  # [trials, points]
    inside: NDArray[np.bool_] = residual < RADIUS_PX
    counts = inside.sum(axis=1)
    best = np.flatnonzero(counts == counts.max())
    if counts[best[0]] == len(source):
        return np.ones(len(source), dtype=bool)
    # The official sum runs over the inliers in order; only what could win by rounding is summed that way.
    sums = np.where(inside[best], residual[best], 0.0).sum(axis=1)
    close = best[sums <= sums.min() * (1 + 1e-12)]
    winner = min(close, key=lambda trial: float(np.sum(residual[trial][inside[trial]])))
    closest: NDArray[np.bool_] = inside[winner]
    return closest


@lru_cache(maxsize=512)
def _sample_pairs(points: int) -> NDArray[np.int64]:
    """The 500 index pairs for a number of points; the generator starts from the same seed every time."""
    rng = np.random.default_rng(SEED)
    pairs = np.stack([rng.choice(points, 2, replace=False) for _ in range(TRIALS)])
    pairs.setflags(write=False)
    return pairs
