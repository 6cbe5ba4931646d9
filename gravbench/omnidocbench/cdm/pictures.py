"""Pictures of CDM matches: the true formula above, the predicted one below, a box around every token.

Both are rendered again as they were scored, since boxes alone are kept of a rendering.
"""

from __future__ import annotations

import csv
import io
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from gravbench.omnidocbench.cdm.match import Counts, Glyphs, match, matched_pairs, visible
from gravbench.omnidocbench.cdm.render import Engine, Rendering, Source, Steps, render
from gravbench.omnidocbench.cdm.score import Side, side_of
from gravbench.omnidocbench.cdm.tools import Limits, find_tools

CHUNK = 100
"""Renderings held in memory at once."""
MATCHED, UNMATCHED, INK, PAPER = (0, 114, 178), (213, 94, 0), (40, 40, 40), (255, 255, 255)
"""Blue and orange, which colour-blind people tell apart; what is not matched has a double frame as well."""
BORDER, LINE_HEIGHT, LEAST_WIDTH = 12, 22, 360
INDEX = "matches.csv"


@dataclass(frozen=True, slots=True)
class _Drawn:
    """One side of a pair. `places` are its matched glyphs."""

    title: str
    rendering: Rendering
    glyphs: Glyphs | None
    places: frozenset[int]


def worst_first(rows: Sequence[Mapping[str, Any]], limit: int) -> list[Mapping[str, Any]]:
    """The `limit` formula rows of a result with the lowest CDM; equal ones in the order of the pages."""
    scored = [row for row in rows if "CDM" in row["metric"]]
    return sorted(scored, key=lambda row: float(row["metric"]["CDM"]))[:limit]


def write_pictures(
    rows: Sequence[Mapping[str, Any]],
    folder: Path,
    *,
    cache_dir: Path,
    progress: Callable[[int, int], None] | None = None,
) -> list[Path]:
    """A PNG for each formula row of a result, and `matches.csv`, which says what they show; into `folder`."""
    tools = find_tools(memo_dir=cache_dir)
    engine = Engine(tools.pdflatex, tools.gs, Limits())
    steps = Steps(sum(len(_formulas(row)) for row in rows), progress)
    index = io.StringIO()
    table = csv.writer(index, lineterminator="\n")
    columns = ("file", "page", "formula", "CDM", "matched", "true tokens", "predicted tokens")
    table.writerow((*columns, "truth", "prediction"))
    written = []
    scratch = Path(tempfile.mkdtemp(prefix="gravbench-cdm-"))
    try:
        for at in range(0, len(rows), CHUNK // 2):
            part = rows[at : at + CHUNK // 2]
            renderings = _rendered(part, engine, scratch, steps)
            for number, row in enumerate(part, start=at + 1):
                path = folder / file_name(row, number)
                counts, pred = _write(row, renderings, path)
                values = (row["metric"]["CDM"], counts.tp, counts.gt_tokens, counts.pred_tokens)
                names = (path.name, row["img_id"], row["gt_idx"][0])
                table.writerow((*names, *values, row["gt_cdm"], pred))
                written.append(path)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    (folder / INDEX).write_text(index.getvalue(), encoding="utf-8", errors="backslashreplace")
    return written


def file_name(row: Mapping[str, Any], number: int) -> str:
    """`0001-page_3-formula-0.png`: letters, digits and `._-` alone, whatever the page is called."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "_", str(row["img_id"]).rpartition(".")[0])[:80]
    return f"{number:04}-{stem}-formula-{row['gt_idx'][0]}.png"


def _formulas(row: Mapping[str, Any]) -> list[str]:
    """Truth, prediction, and its second spelling where there is one."""
    return [row[name] for name in ("gt_cdm", "pred_cdm", "pred_cdm_alt") if row.get(name) is not None]


def _rendered(
    rows: Sequence[Mapping[str, Any]], engine: Engine, scratch: Path, steps: Steps
) -> dict[str, tuple[Side, Rendering]]:
    formulas = [formula for row in rows for formula in _formulas(row)]
    sides = {formula: side_of(formula) for formula in formulas}
    sources: list[Source] = list(dict.fromkeys(s.source for s in sides.values() if s.source is not None))
    with steps.of(len(formulas)) as step:
        drawn = render(sources, engine=engine, scratch=scratch, step=step, pictures=True)
    known = dict(zip(sources, drawn, strict=True))
    return {
        formula: (side, Rendering(None, side.problem) if side.source is None else known[side.source])
        for formula, side in sides.items()
    }


def _write(
    row: Mapping[str, Any], renderings: Mapping[str, tuple[Side, Rendering]], path: Path
) -> tuple[Counts, str]:
    """Draw the pair that counted; its counts, and the spelling of the prediction."""
    truth, *predictions = _formulas(row)
    sides = {formula: _glyphs(*renderings[formula]) for formula in (truth, *predictions)}
    counts, pred = match(sides[truth], sides[predictions[0]]), predictions[0]
    for other in predictions[1:]:
        found = match(sides[truth], sides[other])
        if found.f1 > counts.f1:
            counts, pred = found, other
    true_glyphs, own_glyphs = sides[truth], sides[pred]
    pairs = []
    if true_glyphs is not None and own_glyphs is not None and true_glyphs.tokens and own_glyphs.tokens:
        pairs = matched_pairs(true_glyphs, own_glyphs)
    titles = (
        f"truth: {counts.tp} of {counts.gt_tokens} tokens matched (recall {counts.recall:.3f})",
        f"prediction: {counts.tp} of {counts.pred_tokens} (precision {counts.precision:.3f})",
    )
    drawn = [
        _Drawn(titles[0], renderings[truth][1], true_glyphs, frozenset(pair[0] for pair in pairs)),
        _Drawn(titles[1], renderings[pred][1], own_glyphs, frozenset(pair[1] for pair in pairs)),
    ]
    _picture(f"CDM {counts.f1:.3f}; blue: matched, orange, framed twice: not", drawn).save(path, format="PNG")
    return counts, pred


def _glyphs(side: Side, rendering: Rendering) -> Glyphs | None:
    return None if rendering.boxes is None else visible(side.tokenised.tokens, rendering.boxes)


def _picture(title: str, sides: Sequence[_Drawn]) -> Image.Image:
    """One below the other, each under its title."""
    panels = [_panel(side) for side in sides]
    width = max(LEAST_WIDTH, *(panel.width for panel in panels)) + 2 * BORDER
    height = LINE_HEIGHT + sum(panel.height + LINE_HEIGHT + BORDER for panel in panels) + BORDER
    whole = Image.new("RGB", (width, height), PAPER)
    draw, font = ImageDraw.Draw(whole), ImageFont.load_default()
    draw.text((BORDER, BORDER // 2), title, INK, font)
    y = LINE_HEIGHT
    for side, panel in zip(sides, panels, strict=True):
        draw.text((BORDER, y + BORDER // 2), side.title, INK, font)
        whole.paste(panel, (BORDER, y + LINE_HEIGHT))
        y += panel.height + LINE_HEIGHT + BORDER
    return whole


def _panel(side: _Drawn) -> Image.Image:
    if side.rendering.ink is None or side.glyphs is None:
        panel = Image.new("RGB", (LEAST_WIDTH, LINE_HEIGHT), PAPER)
        problem = str(side.rendering.problem or "nothing to see").encode("ascii", "replace").decode("ascii")
        ImageDraw.Draw(panel).text(
            (0, 4), f"not rendered: {problem}"[:60], UNMATCHED, ImageFont.load_default()
        )
        return panel
    pixels = np.where(side.rendering.ink[:, :, None], np.array(INK), np.array(PAPER)).astype(np.uint8)
    panel = Image.fromarray(pixels, "RGB")
    draw = ImageDraw.Draw(panel)
    for place, (left, top, right, bottom) in enumerate(side.glyphs.boxes):
        matched = place in side.places
        draw.rectangle((left, top, right, bottom), outline=MATCHED if matched else UNMATCHED)
        if not matched:
            draw.rectangle((left - 2, top - 2, right + 2, bottom + 2), outline=UNMATCHED)
    return panel
