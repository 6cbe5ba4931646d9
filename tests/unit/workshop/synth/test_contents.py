"""Tables cover their grid, formulas have one spelling, rotation of anchors follows the image."""

import random

import numpy as np
import pytest
from PIL import Image

from gravbench.workshop.synth.formula import compose_formula, spell
from gravbench.workshop.synth.ink import Wear, develop, rotate_points
from gravbench.workshop.synth.language import LATEX_COMMANDS, target_units
from gravbench.workshop.synth.table import compose_table


def test_every_grid_position_is_covered_once_and_every_row_has_a_cell() -> None:
    spanned = 0
    for seed in range(400):
        table = compose_table(random.Random(seed))
        covered = [
            (row, column)
            for cell in table.cells
            for row in range(cell.row, cell.row + cell.rowspan)
            for column in range(cell.column, cell.column + cell.colspan)
        ]
        assert sorted(covered) == [(r, c) for r in range(table.rows) for c in range(table.columns)]
        assert {cell.row for cell in table.cells} == set(range(table.rows))
        assert table.html().count("<tr>") == table.rows
        assert not any(set(cell.text) & set('<>&"') or len(cell.text) > 9 for cell in table.cells)
        spanned += table.spans
    assert 60 < spanned < 140


def test_a_command_before_a_letter_keeps_its_space() -> None:
    assert spell(["\\alpha", "x"]) == "\\alpha x"
    assert spell(["\\alpha", "\\beta", "_", "{", "2", "}"]) == "\\alpha\\beta_{2}"
    assert spell(["\\geq", "q"]) == "\\geq q"
    assert spell([]) == ""


def test_formulas_respell_to_themselves_and_use_every_command() -> None:
    seen: set[str] = set()
    for seed in range(3000):
        latex = compose_formula(random.Random(seed))
        units = target_units(latex)
        assert spell([unit for unit in units if unit != " "]) == latex
        assert latex.count("{") == latex.count("}")
        seen.update(unit for unit in units if len(unit) > 1)
    assert seen == set(LATEX_COMMANDS)


@pytest.mark.parametrize("degrees", [-5.0, -1.0, 1.0, 30.0])
def test_rotated_anchor_stays_on_its_ink(degrees: float) -> None:
    mask = Image.new("L", (160, 96), 0)
    mask.paste(255, (98, 28, 103, 33))
    wear = Wear(ink=0, paper=255, noise=0.0, blur=0.0, degrees=degrees, shading=0.0)
    grey = 255 - np.asarray(develop(mask, wear, random.Random(0))).astype(float)
    ys, xs = np.mgrid[0:96, 0:160]
    centre = ((xs * grey).sum() / grey.sum() + 0.5, (ys * grey).sum() / grey.sum() + 0.5)
    moved = rotate_points([(100.5, 30.5), None], degrees, (160, 96))
    assert moved[0] == pytest.approx(centre, abs=0.2)
    assert moved[1] is None


def test_clean_wear_keeps_paper_and_ink_exact() -> None:
    mask = Image.new("L", (16, 16), 0)
    mask.putpixel((3, 4), 255)
    wear = Wear(ink=20, paper=255, noise=0.0, blur=0.0, degrees=0.0, shading=0.0)
    image = develop(mask, wear, random.Random(0))
    assert (image.getpixel((3, 4)), image.getpixel((9, 9))) == (20, 255)
