"""Ink: letters of the Debian fonts on a mask, and from a mask to a page-like crop (padding, slight rotation,
blur, contrast, shading, noise).
"""

from __future__ import annotations

import functools
import math
import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from gravbench.errors import DataError
from gravbench.workshop.synth.language import Split

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


GRID = 16
"""Sides are multiples of this (8-pixel patches merged 2 by 2), so that no processor resamples a crop."""

Point = tuple[float, float]
Anchors = list[Point | None]


@dataclass(frozen=True, slots=True)
class Wear:
    """How a crop deviates from a clean print; zero means not at all. Grey levels are 0 to 255."""

    ink: int
    paper: int
    noise: float
    blur: float
    degrees: float
    shading: float


def pick_wear(rng: random.Random, *, max_degrees: float = 1.0) -> Wear:
    """40 % clean black on white; the rest moderately worn, with at least 90 grey levels of contrast."""
    if rng.random() < 0.4:
        return Wear(ink=rng.randint(0, 30), paper=255, noise=0.0, blur=0.0, degrees=0.0, shading=0.0)
    ink, paper = rng.randint(0, 90), rng.randint(205, 255)
    if rng.random() < 0.12:
        paper = rng.randint(170, 215)
        ink = max(0, paper - rng.randint(90, 130))
    return Wear(
        ink=ink,
        paper=paper,
        noise=rng.uniform(1.5, 7.0) if rng.random() < 0.5 else 0.0,
        blur=rng.uniform(0.3, 0.7) if rng.random() < 0.3 else 0.0,
        degrees=rng.uniform(-max_degrees, max_degrees) if rng.random() < 0.4 else 0.0,
        shading=rng.uniform(4.0, 14.0) if rng.random() < 0.2 else 0.0,
    )


def round_up(length: float) -> int:
    """Smallest multiple of `GRID` that is not below `length`."""
    return GRID * math.ceil(length / GRID)


def rotate_points(anchors: Anchors, degrees: float, size: tuple[int, int]) -> Anchors:
    """Where `Image.rotate(degrees)` moves points.

    x' = cx + dx cos a + dy sin a, y' = cy - dx sin a + dy cos a, (dx, dy) from the centre (cx, cy).
    """
    if degrees == 0.0:
        return anchors
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    cx, cy = size[0] / 2, size[1] / 2
    moved: Anchors = []
    for anchor in anchors:
        if anchor is None:
            moved.append(None)
        else:
            dx, dy = anchor[0] - cx, anchor[1] - cy
            moved.append((cx + dx * cos + dy * sin, cy - dx * sin + dy * cos))
    return moved


def develop(mask: Image.Image, wear: Wear, rng: random.Random) -> Image.Image:
    """Turn an ink mask (mode L, 255 = ink) into the final crop of the same size.

    grey = paper + (ink - paper) mask / 255 + shading + noise, rounded and clipped to 0..255.
    """
    if wear.degrees:
        mask = mask.rotate(wear.degrees, resample=Image.Resampling.BICUBIC)
    if wear.blur:
        mask = mask.filter(ImageFilter.GaussianBlur(wear.blur))
    if not wear.noise and not wear.shading:
        scale = (wear.ink - wear.paper) / 255
        return mask.point([round(wear.paper + scale * level) for level in range(256)])
    grey = np.asarray(mask, dtype=np.float32) * np.float32((wear.ink - wear.paper) / 255) + np.float32(
        wear.paper
    )
    if wear.shading:
        slope = np.linspace(-wear.shading, 0.0, mask.width, dtype=np.float32)
        grey += slope if rng.random() < 0.5 else slope[::-1]
    if wear.noise:
        generator = np.random.Generator(np.random.PCG64(rng.getrandbits(63)))
        grey += np.float32(wear.noise) * generator.standard_normal(grey.shape, dtype=np.float32)
    return Image.fromarray(np.clip(np.rint(grey), 0, 255).astype(np.uint8))
