"""Small pictures of sample images, as data addresses, within a budget of bytes for all of them together."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from gravbench.errors import DataError
from gravbench.imaging import MAX_PIXELS, read_bounded

SIDES = (640, 480, 360, 256, 192, 144)
QUALITY = 55
BYTES_A_PIXEL = 0.04
"""What a square pixel of page or crop costs at this quality, on the low side: where to start trying."""
LARGEST = 14_000
"""Bytes a picture may have when there are few of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thumbnail:
    """A data address and the size of the original, or why there is none."""

    address: str | None
    wh: tuple[int, int] | None
    note: str | None = None


def thumbnails(paths: Sequence[str], *, budget: int, threads: int = 2) -> list[Thumbnail]:
    """One each, in order, of at most `budget / len(paths)` bytes; the side shrinks until it fits."""
    share = min(LARGEST, budget // max(1, len(paths)))
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda path: thumbnail(Path(path), limit=share), paths))


def thumbnail(path: Path, *, limit: int) -> Thumbnail:
    """WebP of the largest of `SIDES` that fits `limit` bytes; the smallest is kept even when it does not."""
    sides = [side for side in SIDES if side * side * BYTES_A_PIXEL <= limit] or list(SIDES[-1:])
    try:
        with Image.open(io.BytesIO(read_bounded(path))) as opened:
            wh = opened.size
            if wh[0] * wh[1] > MAX_PIXELS:
                return Thumbnail(address=None, wh=wh, note=f"not shown: {wh[0]} x {wh[1]} pixels")
            opened.draft("RGB", (sides[0], sides[0]))
            image = opened.convert("RGB")
    except (DataError, OSError, ValueError, SyntaxError, MemoryError) as fault:
        reason = fault.message if isinstance(fault, DataError) else f"cannot be decoded ({fault})"
        return Thumbnail(address=None, wh=None, note=f"not shown: {path.name}: {reason}")
    image.thumbnail((sides[0], sides[0]), Image.Resampling.BOX)
    data = b""
    for side in sides:
        small = image.copy()
        small.thumbnail((side, side), Image.Resampling.BILINEAR)
        buffer = io.BytesIO()
        small.save(buffer, "WEBP", quality=QUALITY, method=1)
        data = buffer.getvalue()
        if len(data) <= limit:
            break
    address = "data:image/webp;base64," + base64.b64encode(data).decode("ascii")
    return Thumbnail(address=address, wh=wh)
