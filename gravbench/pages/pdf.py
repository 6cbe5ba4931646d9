"""Pages of PDFs as pictures, by PDFium."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gravbench.errors import DataError

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument, PdfPage

MAX_PDF_BYTES = 1024 * 1024 * 1024


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
