"""Marks of tests that need a program or a font of the system: each skips where it is missing, and names it.

`not run: ...; install NAME` with Debian's names; all of them are in `.ci/debian-packages.txt`, or optional.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from oracles.official_cdm import imagemagick
from report_support import chromium

from gravbench.omnidocbench.cdm.tools import DEBIAN_PACKAGES
from gravbench.omnidocbench.table_conversion import latexml_available
from gravbench.workshop.synth.ink import HELDOUT_FACES, TRAIN_FACES


def needs(what: str, packages: tuple[str, ...], *, here: bool) -> pytest.MarkDecorator:
    """A mark that skips unless `here`, saying what is missing and which packages bring it."""
    return pytest.mark.skipif(not here, reason=f"not run: {what} missing; install {' '.join(packages)}")


FACES = (*TRAIN_FACES, *HELDOUT_FACES)
FONTS = tuple(sorted({face.package for face in FACES if not Path(face.path).is_file()}))

needs_fonts = needs("fonts", FONTS, here=not FONTS)
needs_tex = needs(
    "pdflatex or gs", DEBIAN_PACKAGES, here=None not in (shutil.which("pdflatex"), shutil.which("gs"))
)
needs_imagemagick = needs("ImageMagick to compare with", ("imagemagick",), here=imagemagick() is not None)
needs_latexml = needs("latexmlc", ("latexml",), here=latexml_available())
needs_chromium = needs("a browser", ("chromium",), here=chromium() is not None)
