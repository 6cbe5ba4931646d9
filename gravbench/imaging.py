"""Opening images and PDFs from outside: bounded in bytes and pixels before anything is decoded."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import stat
import struct
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gravbench.errors import DataError

if TYPE_CHECKING:
    from PIL import Image
    from pypdfium2 import PdfDocument, PdfPage

MAX_BYTES = 64 * 1024 * 1024
MAX_PDF_BYTES = 1024 * 1024 * 1024
MAX_PIXELS = 50_000_000
FORMATS = ("PNG", "JPEG", "WEBP", "TIFF", "BMP")
"""Raster formats decoded in this process; none of them starts another program."""

_LYING = {5, 6, 7, 8}
"""EXIF orientations that exchange width and height."""
_DECODE_FAULTS = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    IndexError,
    KeyError,
    TypeError,
    OverflowError,
    MemoryError,
    struct.error,
    zlib.error,
)
"""Besides `DecompressionBombError`; the library itself is loaded with the first image."""

_FOREIGN = (
    (b"%PDF-", "a PDF", "Render its pages, for example with `pdftoppm -r 150 -png FILE.pdf page`."),
    (b"GIF8", "a GIF", "Save it as PNG, for example with `convert 'FILE.gif[0]' page.png`."),
    (b"%!PS", "PostScript", "Render it, for example with `gs -sDEVICE=png16m -r150 -o page-%d.png FILE`."),
    (b"<svg", "an SVG drawing", "Render it as PNG."),
    (b"<?xml", "an XML file, perhaps an SVG drawing", "Render it as PNG."),
    (b"AT&TFORM", "a DjVu file", "Render its pages, for example with `ddjvu -format=tiff`."),
    (b"\0\0\0\x0cjP  ", "JPEG 2000", "Save it as PNG."),
)
"""First bytes of files that people take for page images, what to call them, and what to do."""

_HEIF = (b"ftypheic", b"ftypheix", b"ftypmif1", b"ftypavif")

_SMALLER_FILE = "Restore the file from its source."
_SMALLER = "Scale it down, or restore the file from its source."


def read_bounded(path: Path, *, limit: int = MAX_BYTES, what: str = "image") -> bytes:
    """Bytes of a regular file of at most `limit` bytes; anything else is a `DataError` naming the file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except (OSError, ValueError) as fault:
        reason = getattr(fault, "strerror", None) or str(fault)
        raise DataError(
            f"{path}: cannot open {what}: {reason}", hint="check the path and its permissions"
        ) from fault
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise DataError(f"{path}: {what} is not a regular file", hint="give the path of a file")
    with os.fdopen(descriptor, "rb") as stream:
        if status.st_size > limit:
            raise DataError(
                f"{path}: {what} has {status.st_size:,} bytes, expected at most {limit:,}", hint=_SMALLER_FILE
            )
        data = stream.read(limit + 1)
    if len(data) > limit:
        raise DataError(f"{path}: {what} grew past {limit:,} bytes while it was read")
    return data


def bytes_digest(data: bytes) -> str:
    """SHA-256 as 64 lower-case hex digits."""
    return hashlib.sha256(data).hexdigest()


def file_digest(path: str | Path, *, what: str = "image", limit: int = MAX_BYTES) -> str:
    """SHA-256 of a file's bytes, bounded like every read here."""
    return bytes_digest(read_bounded(Path(path), limit=limit, what=what))


def load_image(
    path: str | Path, *, max_pixels: int = MAX_PIXELS, annotated: tuple[float, float] | None = None
) -> Image.Image:
    """An image file as mode L (grey files) or RGB, upright; transparency is laid on white.

    Its EXIF orientation is honoured, as viewers do. Where an annotation states width and height, `annotated`,
    that is done only if the size is then this one. The header's width times height is checked against
    `max_pixels` before pixels are decoded. Files that are too large, of another format or of several frames,
    cut short or otherwise undecodable are a `DataError`.
    """
    return decode_image(read_bounded(Path(path)), str(path), max_pixels=max_pixels, annotated=annotated)


def decode_image(
    data: bytes, name: str, *, max_pixels: int = MAX_PIXELS, annotated: tuple[float, float] | None = None
) -> Image.Image:
    """`load_image` for bytes already read; `name` is what messages call the image."""
    return decode_preview(data, name, max_pixels=max_pixels, annotated=annotated)[0]


def decode_preview(
    data: bytes,
    name: str,
    *,
    side: int | None = None,
    max_pixels: int = MAX_PIXELS,
    annotated: tuple[float, float] | None = None,
) -> tuple[Image.Image, tuple[int, int]]:
    """`decode_image`, and the width and height of the whole image as it stands upright.

    With `side`, a JPEG may come at a fraction of its size that is no smaller than that: much less to decode.
    """
    with warnings.catch_warnings():  # of damaged parts that the library reads past
        warnings.simplefilter("ignore")
        return _decoded(data, name, side, max_pixels, annotated)


def _decoded(
    data: bytes, name: str, side: int | None, max_pixels: int, annotated: tuple[float, float] | None
) -> tuple[Image.Image, tuple[int, int]]:
    from PIL import Image

    try:
        opened = Image.open(io.BytesIO(data), formats=FORMATS)
    except Image.DecompressionBombError as fault:
        raise DataError(
            f"{name}: image is {_stated_size(data, name)}, expected at most {max_pixels:,} in all",
            hint=_SMALLER,
        ) from fault
    except _DECODE_FAULTS as fault:
        raise _unreadable(data, name) from fault
    width, height = opened.size
    if width * height > max_pixels or width < 1 or height < 1:
        raise DataError(
            f"{name}: image is {width} x {height} pixels, expected 1 to {max_pixels:,} in all", hint=_SMALLER
        )
    try:
        frames = 1 if opened.format == "MPO" else getattr(opened, "n_frames", 1)
        if frames != 1:
            raise DataError(
                f"{name}: {opened.format} image of {frames} frames, expected one",
                hint="Save each frame as an image of its own, with an annotation of its own.",
            )
        upright = _upright_size(opened)
        turns = annotated is None or upright == annotated
        if side is not None:
            opened.draft(None, (side, side))
        opened.load()
        image = _as_grey_or_rgb(_upright(opened) if turns else opened, name)
        return image, upright if turns else (width, height)
    except (*_DECODE_FAULTS, Image.DecompressionBombError) as fault:
        raise DataError(
            f"{name}: {opened.format} image of {width} x {height} does not decode: {fault}",
            hint="restore the file from its source",
        ) from fault


def _unreadable(data: bytes, name: str) -> DataError:
    """What the bytes are instead of an image that can be read, and what to do about it."""
    start = data[:64].lstrip(b"\xef\xbb\xbf \t\r\n")
    kind, hint = f"{len(data):,} bytes that are no readable image", "Convert it to PNG, or restore the file."
    if data[4:12] in _HEIF:
        kind, hint = "a HEIF or AVIF image", "Save it as PNG."
    for magic, what, advice in _FOREIGN:
        if start.startswith(magic) or data.startswith(magic):
            kind, hint = what, advice
            break
    return DataError(f"{name}: {kind}, expected {' or '.join(FORMATS)}", hint=hint)


def _upright(image: Image.Image) -> Image.Image:
    """`image` turned as its EXIF orientation says."""
    from PIL import Image, ImageOps

    try:
        return ImageOps.exif_transpose(image)
    except (*_DECODE_FAULTS, Image.DecompressionBombError):  # a damaged EXIF block says nothing
        return image


def _upright_size(image: Image.Image) -> tuple[int, int]:
    """Width and height that `image` has when it is turned; nothing is decoded."""
    from PIL import ExifTags

    with contextlib.suppress(*_DECODE_FAULTS):
        if image.getexif().get(ExifTags.Base.Orientation) in _LYING:
            return image.height, image.width
    return image.size


def _stated_size(data: bytes, name: str) -> str:
    """`W x H pixels` as the header says, of an image that the library refuses to open for its size."""
    from PIL import Image

    for form in FORMATS:
        with contextlib.suppress(*_DECODE_FAULTS, Image.DecompressionBombError):
            width, height = Image.OPEN[form][0](io.BytesIO(data), name).size
            return f"{width} x {height} pixels"
    return "of more pixels than can be read"


def _as_grey_or_rgb(image: Image.Image, name: str) -> Image.Image:
    if image.mode in ("L", "RGB") and "transparency" not in image.info:
        return image.copy()
    if image.mode == "1":
        return image.convert("L")
    if image.mode.startswith("I"):
        import numpy as np
        from PIL import Image

        values = np.asarray(image).astype(np.int64)
        return Image.fromarray(np.clip(values >> 8, 0, 255).astype(np.uint8))
    if image.mode == "F":
        raise DataError(f"{name}: floating-point image, expected 8 or 16 bits a channel")
    if image.has_transparency_data:
        from PIL import Image

        clear = image.convert("RGBA")
        page = Image.new("RGBA", clear.size, "white")
        return Image.alpha_composite(page, clear).convert("RGB")
    return image.convert("RGB")


def is_within(resolved: Path, root: Path) -> bool:
    """Whether a path lies below `root`, or is a blob of the hub repository that `root` is a snapshot of."""
    if resolved.is_relative_to(root):
        return True
    snapshot = next((p for p in (root, *root.parents) if p.parent.name == "snapshots"), None)
    return snapshot is not None and resolved.parent == snapshot.parent.parent / "blobs"


@contextmanager
def open_pdf(data: bytes) -> Iterator[PdfDocument]:
    """A PDF's pages; `DataError` where it is none, is locked, or pypdfium2 is not here."""
    try:
        import pypdfium2
    except ImportError as fault:
        raise DataError(
            "a PDF, and pypdfium2 is not installed",
            hint="pip install 'gravbench[data]' (or pypdfium2), or render it first.",
        ) from fault
    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as fault:
        raise DataError(f"not readable as a PDF: {fault}", hint="Restore the file, or unlock it.") from fault
    try:
        yield document
    finally:
        document.close()


def png_of(page: PdfPage, *, scale: float, compress_level: int) -> bytes:
    """The page as PNG in RGB; at `scale` 1, a pixel is one of 72 to the inch."""
    out = io.BytesIO()
    picture = page.render(scale=scale).to_pil().convert("RGB")
    picture.save(out, format="PNG", compress_level=compress_level)
    return out.getvalue()
