"""Images are bounded before they are decoded, and every fault is one `DataError` that names the file."""

import io
import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from gravbench import imaging
from gravbench.errors import DataError
from gravbench.imaging import decode_image, file_digest, load_image, read_bounded


def _png(image: Image.Image) -> bytes:
    stream = io.BytesIO()
    image.save(stream, format="PNG")
    return stream.getvalue()


def _png_claiming(width: int, height: int) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    data = zlib.compress(b"\0" * 1000)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def test_grey_and_colour_pixels_come_back_unchanged(tmp_path: Path) -> None:
    grey = Image.fromarray(np.arange(96, dtype=np.uint8).reshape(8, 12))
    (tmp_path / "grey.png").write_bytes(_png(grey))
    (tmp_path / "rgb.png").write_bytes(_png(grey.convert("RGB")))
    assert load_image(tmp_path / "grey.png").tobytes() == grey.tobytes()
    assert load_image(str(tmp_path / "rgb.png")).mode == "RGB"


@pytest.mark.parametrize(
    ("image", "mode", "pixel"),
    [
        (Image.new("RGBA", (4, 4), (0, 0, 0, 0)), "RGB", (255, 255, 255)),
        (Image.new("LA", (4, 4), (0, 255)), "RGB", (0, 0, 0)),
        (Image.new("1", (4, 4), 1), "L", 255),
        (Image.fromarray(np.full((4, 4), 0x80FF, dtype=np.uint16)), "L", 0x80),
        (Image.new("P", (4, 4), 0), "RGB", (0, 0, 0)),
    ],
)
def test_other_modes_become_grey_or_rgb_on_white(image: Image.Image, mode: str, pixel: object) -> None:
    decoded = decode_image(_png(image), "x.png")
    assert decoded.mode == mode
    assert decoded.getpixel((1, 1)) == pixel


@pytest.mark.parametrize("size", [(8000, 8000), (60000, 60000), (2**31 - 1, 2**31 - 1)])
def test_too_many_pixels_are_refused_from_the_header(size: tuple[int, int]) -> None:
    with pytest.raises(DataError, match=rf"bomb\.png: image is {size[0]} x {size[1]} pixels"):
        decode_image(_png_claiming(*size), "bomb.png")


def test_zero_pixels_are_refused() -> None:
    with pytest.raises(DataError, match=r"empty\.png"):
        decode_image(_png_claiming(0, 5), "empty.png")


def test_truncated_and_foreign_files_are_data_errors() -> None:
    whole = _png(Image.effect_noise((64, 64), 40))
    for data in (b"", b"not an image", whole[:20], whole[: len(whole) // 2], _png_claiming(300, 300)):
        with pytest.raises(DataError, match=r"bad\.png"):
            decode_image(data, "bad.png")


def _saved(image: Image.Image, **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, **options)  # type: ignore[arg-type]
    return stream.getvalue()


SMALL = Image.new("L", (4, 4))


@pytest.mark.parametrize(
    ("data", "what", "step"),
    [
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "PostScript", "gs "),
        (_saved(SMALL, format="GIF"), "a GIF", "as PNG"),
        (_saved(SMALL, format="PDF"), "a PDF", "pdftoppm"),
        (b'\xef\xbb\xbf<?xml version="1.0"?><svg/>', "an XML file", "as PNG"),
        (b"\0\0\0\x18ftypheic" + bytes(40), "a HEIF or AVIF image", "as PNG"),
        (b"AT&TFORM" + bytes(40), "a DjVu file", "ddjvu"),
    ],
)
def test_files_of_other_kinds_are_named_with_the_way_to_an_image(data: bytes, what: str, step: str) -> None:
    with pytest.raises(DataError) as caught:
        decode_image(data, "page.eps")
    assert caught.value.message.startswith(f"page.eps: {what}")
    assert step in (caught.value.hint or "")


@pytest.mark.parametrize("kind", ["TIFF", "WEBP", "PNG"])
def test_an_image_of_several_frames_is_refused_with_their_number(kind: str) -> None:
    frames = [Image.new("RGB", (8, 8), (40 * n, 0, 0)) for n in range(3)]
    data = _saved(frames[0], format=kind, save_all=True, append_images=frames[1:])
    with pytest.raises(DataError, match=rf"{kind} image of 3 frames, expected one") as caught:
        decode_image(data, "page")
    assert "an image of its own" in (caught.value.hint or "")
    assert decode_image(_saved(frames[0], format=kind), "page").size == (8, 8)


def _lying(orientation: int) -> bytes:
    """A 30 x 20 page, black in its upper left corner as it lies, with an EXIF orientation."""
    image = Image.new("L", (30, 20), 255)
    image.paste(0, (0, 0, 10, 10))
    exif = Image.Exif()
    exif[0x0112] = orientation
    return _saved(image, format="PNG", exif=exif)


@pytest.mark.parametrize(
    ("orientation", "size", "black"),
    [(1, (30, 20), (0, 0)), (3, (30, 20), (29, 19)), (6, (20, 30), (19, 0)), (8, (20, 30), (0, 29))],
)
def test_exif_orientation_is_honoured(
    orientation: int, size: tuple[int, int], black: tuple[int, int]
) -> None:
    upright = decode_image(_lying(orientation), "page")
    assert upright.size == size
    assert upright.getpixel(black) == 0


def test_an_annotated_image_is_turned_only_if_it_then_has_the_annotated_size() -> None:
    assert decode_image(_lying(6), "page", annotated=(20, 30)).size == (20, 30)
    for annotated in ((30, 20), (60, 40), (40, 60)):
        kept = decode_image(_lying(6), "page", annotated=annotated)
        assert (kept.size, kept.getpixel((0, 0))) == ((30, 20), 0)


def test_a_damaged_exif_block_turns_nothing() -> None:
    data = _saved(Image.new("L", (30, 20), 255), format="PNG", exif=b"Exif\0\0MM\0*\xff\xff\xff\xff")
    assert decode_image(data, "page").size == (30, 20)


def test_missing_folder_fifo_and_large_files_are_data_errors(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "large").write_bytes(b"x" * 11)
    with pytest.raises(DataError, match="No such file"):
        load_image(tmp_path / "absent.png")
    for name in (".", "fifo"):
        with pytest.raises(DataError, match="not a regular file"):
            load_image(tmp_path / name)
    with pytest.raises(DataError, match="11 bytes, expected at most 10"):
        read_bounded(tmp_path / "large", limit=10)
    with pytest.raises(DataError, match="cannot open"):
        load_image("a\0b")


def test_digest_is_sha256_of_the_bytes(tmp_path: Path) -> None:
    (tmp_path / "abc").write_bytes(b"abc")
    assert file_digest(tmp_path / "abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(imaging.FORMATS), st.integers(0, 10**6), st.binary(min_size=1, max_size=8))
def test_damaged_files_decode_or_fail_cleanly(kind: str, where: int, junk: bytes) -> None:
    stream = io.BytesIO()
    Image.linear_gradient("L").resize((40, 24)).convert("RGB").save(stream, format=kind)
    data = bytearray(stream.getvalue())
    start = where % len(data)
    data[start : start + len(junk)] = junk
    try:
        image = decode_image(bytes(data), "damaged")
    except DataError as fault:
        assert "damaged" in fault.message
    else:
        assert image.mode in ("L", "RGB")
