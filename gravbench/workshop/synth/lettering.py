"""Draw one line of text onto an ink mask and say where each character's ink lies."""

from __future__ import annotations

from dataclasses import dataclass

from PIL import ImageDraw

from gravbench.workshop.synth.canvas import Anchors
from gravbench.workshop.synth.fonts import ink_box, load_font


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
