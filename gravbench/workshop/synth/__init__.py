"""Seeded generator of synthetic region crops: text, tables and formulas with exact targets."""

from gravbench.workshop.synth.crop import KINDS, Crop, render_crop, render_letters
from gravbench.workshop.synth.language import CHARSET, LATEX_COMMANDS, TABLE_TAGS, target_units

__all__ = [
    "CHARSET",
    "KINDS",
    "LATEX_COMMANDS",
    "TABLE_TAGS",
    "Crop",
    "render_crop",
    "render_letters",
    "target_units",
]
