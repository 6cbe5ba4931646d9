"""The Debian fonts that crops are drawn with; one line of text on an ink mask, and where each letter lies."""

from __future__ import annotations

import functools
import random
from dataclasses import dataclass
from pathlib import Path

from PIL import ImageDraw, ImageFont

from gravbench.errors import DataError
from gravbench.workshop.synth.canvas import Anchors
from gravbench.workshop.synth.sentences import Split

_TRUETYPE = "/usr/share/fonts/truetype"
_LATIN_MODERN = "/usr/share/texmf/fonts/opentype/public/lm"


@dataclass(frozen=True, slots=True)
class Face:
    """One font file, the Debian package that installs it, and the bold face used for header rows."""

    name: str
    path: str
    package: str
    bold: str | None = None


def _face(stem: str, folder: str, package: str, bold: str | None = None) -> Face:
    root = _LATIN_MODERN if folder == "lm" else f"{_TRUETYPE}/{folder}"
    suffix = "otf" if folder == "lm" else "ttf"
    bold_path = f"{root}/{bold}.{suffix}" if bold else None
    return Face(stem, f"{root}/{stem}.{suffix}", package, bold_path)


TRAIN_FACES: tuple[Face, ...] = (
    _face("DejaVuSans", "dejavu", "fonts-dejavu-core", "DejaVuSans-Bold"),
    _face("DejaVuSansCondensed", "dejavu", "fonts-dejavu-extra", "DejaVuSansCondensed-Bold"),
    _face("DejaVuSerif", "dejavu", "fonts-dejavu-core", "DejaVuSerif-Bold"),
    _face("DejaVuSansMono", "dejavu", "fonts-dejavu-core", "DejaVuSansMono-Bold"),
    _face("LiberationSans-Regular", "liberation", "fonts-liberation", "LiberationSans-Bold"),
    _face("LiberationSans-Bold", "liberation", "fonts-liberation"),
    _face("LiberationSerif-Regular", "liberation", "fonts-liberation", "LiberationSerif-Bold"),
    _face("LiberationSerif-Italic", "liberation", "fonts-liberation", "LiberationSerif-BoldItalic"),
    _face("LiberationMono-Regular", "liberation", "fonts-liberation", "LiberationMono-Bold"),
    _face("FreeSans", "freefont", "fonts-freefont-ttf", "FreeSansBold"),
    _face("NotoSerif-Regular", "noto", "fonts-noto-core", "NotoSerif-Bold"),
    _face("lmroman10-regular", "lm", "fonts-lmodern", "lmroman10-bold"),
)
HELDOUT_FACES: tuple[Face, ...] = (
    _face("NotoSans-Regular", "noto", "fonts-noto-core", "NotoSans-Bold"),
    _face("FreeSerif", "freefont", "fonts-freefont-ttf", "FreeSerifBold"),
)
ROBUST_TRAIN_FACES: tuple[Face, ...] = (
    _face("NotoSerif-Italic", "noto", "fonts-noto-core"),
    _face("LiberationSerif-Bold", "liberation", "fonts-liberation"),
    _face("LiberationMono-Italic", "liberation", "fonts-liberation"),
    _face("DejaVuSans-Oblique", "dejavu", "fonts-dejavu-extra"),
    _face("DejaVuSerifCondensed", "dejavu", "fonts-dejavu-extra"),
    _face("FreeSansBold", "freefont", "fonts-freefont-ttf"),
    _face("lmmono10-regular", "lm", "fonts-lmodern"),
)
"""More faces, for training on robust crops only."""
ROBUST_HELDOUT_FACES: tuple[Face, ...] = (
    _face("lmsans10-regular", "lm", "fonts-lmodern"),
    _face("lmroman10-italic", "lm", "fonts-lmodern"),
    _face("FreeMono", "freefont", "fonts-freefont-ttf"),
    _face("FreeSerifItalic", "freefont", "fonts-freefont-ttf"),
    _face("LiberationSans-Italic", "liberation", "fonts-liberation"),
    _face("NotoSans-Italic", "noto", "fonts-noto-core"),
)
"""Faces of the robust suite that no training crop carries."""
UNSEEN_SHARE = 0.35
"""Share of held-out text and table crops drawn with a face that training never uses."""


@functools.cache
def load_font(path: str, size: int, package: str) -> ImageFont.FreeTypeFont:
    """Open a font file; a missing one is a `DataError` that names the file and its Debian package."""
    if not Path(path).is_file():
        raise DataError(
            f"font file {path}: not found; synthetic crops are drawn with the Debian fonts",
            hint=f"apt-get install {package}",
        )
    return ImageFont.truetype(path, size, layout_engine=ImageFont.Layout.BASIC)


@functools.cache
def ink_box(path: str, size: int, package: str, char: str) -> tuple[float, float, float, float]:
    """Ink box of one character relative to its pen position on the baseline, in pixels."""
    return load_font(path, size, package).getbbox(char, anchor="ls")


def pick_face(rng: random.Random, split: Split) -> Face:
    """A training face, or in held-out crops with probability `UNSEEN_SHARE` an unseen one."""
    unseen = rng.random() < UNSEEN_SHARE
    return rng.choice(HELDOUT_FACES if split == "heldout" and unseen else TRAIN_FACES)


def is_unseen(font: str) -> bool:
    """Whether `font` is a name that no training crop carries."""
    return any(face.name == font for face in HELDOUT_FACES + ROBUST_HELDOUT_FACES)


@dataclass(frozen=True, slots=True)
class Pen:
    """A font file at a size in pixels."""

    path: str
    size: int
    package: str

    def width(self, text: str) -> float:
        """Advance width of `text` in pixels; 0 for the empty text."""
        return load_font(self.path, self.size, self.package).getlength(text)

    def extent(self) -> tuple[int, int]:
        """(ascent, descent) of the letters in use, from the boxes of a tall and a deep character."""
        boxes = [ink_box(self.path, self.size, self.package, char) for char in "Éé|jpQ("]
        return -int(min(box[1] for box in boxes[1:])), int(max(box[3] for box in boxes))


def draw_line(draw: ImageDraw.ImageDraw, pen: Pen, text: str, x: float, baseline: float) -> Anchors:
    """Draw `text` with its pen at (x, baseline); returns one anchor a character, in mask pixels.

    A space has no ink: its anchor is the middle of its advance, at the height of the letters' middle.
    """
    font = load_font(pen.path, pen.size, pen.package)
    draw.text((x, baseline), text, fill=255, font=font, anchor="ls")
    anchors: Anchors = []
    start = 0.0
    for index, char in enumerate(text):
        end = font.getlength(text[: index + 1])
        if char == " ":
            anchors.append((x + (start + end) / 2, baseline - pen.size * 0.3))
        else:
            left, top, right, bottom = ink_box(pen.path, pen.size, pen.package, char)
            pen_x = end - font.getlength(char)
            anchors.append((x + pen_x + (left + right) / 2, baseline + (top + bottom) / 2))
        start = end
    return anchors
