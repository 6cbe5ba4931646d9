"""CDM one formula at a time, the way the official scorer does it: slow and plain.

One pdflatex run and one ImageMagick run per formula and paper size, whole pages, a 500-trial loop per round.
It shares no code with the package but the tokeniser, which has golden cases of its own: this oracle is about
pixels, boxes and matching.
"""

from __future__ import annotations

import shutil
import subprocess
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

DOCUMENT = r"""
\documentclass[12pt]{article}
\usepackage[landscape]{geometry}
\usepackage{geometry}
\geometry{a<PAPER>paper,scale=0.98}
\pagestyle{empty}
<PACKAGES>
\begin{document}
\makeatletter
\renewcommand*{\@textcolor}[3]{%
  \protect\leavevmode
  \begingroup
    \color#1{#2}#3%
  \endgroup
}
\makeatother
<OPEN>\begin{displaymath}
<BODY>
\end{displaymath}
<CLOSE>\end{document}
"""
PACKAGES = {
    "plain": "booktabs amsmath upgreek amssymb xcolor",
    "cjk": "booktabs amsmath upgreek CJK amssymb xcolor",
    "tabular": "booktabs multirow amssymb upgreek amsmath xcolor",
}


def imagemagick() -> str | None:
    """ImageMagick's own program; a wrapper called `convert` may stand before it on the path."""
    for name in ("magick", "convert-im6.q16", "/usr/bin/convert"):
        found = shutil.which(name)
        if found:
            return found
    return None


@dataclass(frozen=True)
class Picture:
    """Size of the cropped image and the box of each token, empty where it has no pixel."""

    size: tuple[int, int]
    boxes: list[list[int]]


def render(body: str, template: str, *, tokens: int, colours: int, folder: Path) -> Picture | None:
    """One formula, retried on larger paper while its log says overfull. `None` without a PDF or a picture."""
    magick = imagemagick()
    assert magick is not None
    start = 3 if tokens > 1300 else 4 if tokens > 600 else 5
    pdf = folder / "formula.pdf"
    for paper in range(start, 0, -1):
        for old in folder.iterdir():
            old.unlink()
        (folder / "formula.tex").write_text(document(body, template, paper), encoding="utf-8")
        subprocess.run(
            ["pdflatex", "-no-shell-escape", "-interaction=nonstopmode", "formula.tex"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            check=False,
            timeout=120,
        )
        if not pdf.exists():
            return None
        log = (folder / "formula.log").read_text(encoding="utf-8", errors="replace")
        if "Overfull \\hbox" not in log and "Overfull \\vbox" not in log:
            break
    png = folder / "formula.png"
    for _ in range(2):
        subprocess.run(
            [magick, "-density", "200", "-quality", "100", "formula.pdf", "-append", "formula.png"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
            timeout=240,
        )
        if png.exists():
            break
    else:
        return None
    return extract(png, tokens=tokens, colours=colours)


def document(body: str, template: str, paper: int) -> str:
    packages = "\n".join(rf"\usepackage{{{name}}}" for name in PACKAGES[template].split())
    text = DOCUMENT.replace("<PAPER>", str(paper)).replace("<PACKAGES>", packages)
    cjk = template == "cjk"
    text = text.replace("<OPEN>", "\\begin{CJK}{UTF8}{gkai}\n" if cjk else "")
    return text.replace("<CLOSE>", "\\end{CJK}\n" if cjk else "").replace("<BODY>", body)


def extract(png: Path, *, tokens: int, colours: int) -> Picture:
    """Crop to what is not white in grey, with 8 pixels around; one look at the whole image per token."""
    with Image.open(png) as image, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a palette with transparency, which is thrown away
        rgb = image.convert("RGB")
    grey = np.asarray(rgb.convert("L"))
    ys, xs = np.where(grey != 255)
    x0, y0, x1, y1 = (xs.min(), ys.min(), xs.max(), ys.max()) if len(ys) else (0, 0, 10, 10)
    box = (max(0, x0 - 8), max(0, y0 - 8), min(rgb.width, x1 + 8), min(rgb.height, y1 + 8))
    cropped = rgb.crop(tuple(int(edge) for edge in box))
    pixels = np.asarray(cropped).astype(int)
    white = (pixels >= 254).all(axis=2)
    boxes = []
    for number in range(1, tokens + 1):
        colour = [15 * (number // 324), 15 * (number % 324 // 18), 15 * (number % 18)]
        ys, xs = np.where((np.abs(pixels - colour) <= 1).all(axis=2) & ~white)
        inside = number <= colours and len(ys) > 0
        boxes.append(
            [int(xs.min()) - 1, int(ys.min()) - 1, int(xs.max()) + 1, int(ys.max()) + 1] if inside else []
        )
    return Picture(cropped.size, boxes)


class Shift:
    """Translation of centroids and scale by mean radius, applied about the centroid of the points given."""

    def __init__(self, source: np.ndarray, target: np.ndarray) -> None:
        centres = source.mean(axis=0), target.mean(axis=0)
        self.move = centres[1] - centres[0]
        radii = [np.linalg.norm(p - c, axis=1).mean() for p, c in zip((source, target), centres, strict=True)]
        self.scale = radii[1] / (radii[0] + 1e-10)

    def residuals(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        centre = source.mean(axis=0)
        return np.linalg.norm(self.scale * (source - centre) + centre + self.move - target, axis=1)


def inliers(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    rng = np.random.default_rng(2026)
    best, best_count, best_sum = None, 0, np.inf
    for _ in range(500):
        pair = rng.choice(len(source), 2, replace=False)
        residuals = Shift(source[pair], target[pair]).residuals(source, target)
        inside = residuals < 30
        count, total = int(inside.sum()), residuals[inside].sum()
        if count > best_count or (count == best_count and total < best_sum):
            best, best_count, best_sum = inside, count, total
    return np.zeros(len(source), dtype=bool) if best is None else best


def true_positives(
    gt: Sequence[tuple[str, list[int]]],
    pred: Sequence[tuple[str, list[int]]],
    sizes: tuple[tuple[int, int], tuple[int, int]],
    token_cost: np.ndarray,
) -> int:
    """Accepted pairs of two token lists with boxes, by the plain loop."""
    rel = [
        np.array([[x0 / w, y0 / h, x1 / w, y1 / h] for _, (x0, y0, x1, y1) in side])
        for side, (w, h) in zip((gt, pred), sizes, strict=True)
    ]
    longer = max(len(gt), len(pred))
    order = [np.array([[index / longer] for index in range(len(side))]) for side in (gt, pred)]
    cost = token_cost + 0.05 * cdist(*rel, "minkowski", p=1) / 4 + 0.15 * cdist(*order, "minkowski", p=1)
    pairs = list(zip(*linear_sum_assignment(cost), strict=True))
    centres = [
        np.array([[(b[1] + b[3]) / 2, (b[0] + b[2]) / 2] for b in boxes], dtype=float)
        for boxes in ([gt[i][1] for i, _ in pairs], [pred[j][1] for _, j in pairs])
    ]
    accepted = np.zeros(len(pairs), dtype=bool)
    if len(pairs) <= 2:
        accepted[:] = True
    else:
        for _ in range(5):
            left = np.flatnonzero(~accepted)
            if len(left) <= 2:
                break
            inside = inliers(centres[0][left], centres[1][left])
            if not inside.any():
                break
            accepted[left[inside]] = True
    return sum(1 for ok, (i, j) in zip(accepted, pairs, strict=True) if ok and token_cost[i, j] != 1)
