"""The summary for a pull request: what the page says, in Markdown that no text of others can leave."""

from __future__ import annotations

import re
import struct
import zlib
from pathlib import Path

import pytest
from lxml import etree
from report_support import HOSTILE, document_of, loaded, plain_document, plain_records

from gravbench.reporting.gallery import SampleSource, without_pictures
from gravbench.reporting.publication import read_document
from gravbench.reporting.summary_page import plain, summary_markdown, summary_picture
from gravbench.reporting.verdicts import arm_verdicts, headline

PUBLISHED = sorted((Path(__file__).parents[3] / "reports").glob("*/comparison.json"))


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.parent.name)
def test_the_summary_holds_headline_and_answers_of_the_page(path: Path) -> None:
    document = read_document(path)
    text = summary_markdown(document, picture="curve.svg")
    assert text.startswith(f"**{plain(headline(document))}**\n")
    rows = [line for line in text.splitlines() if line.startswith("| ")][2:]
    verdicts = arm_verdicts(document)
    assert len(rows) == len(verdicts)
    for row, verdict in zip(rows, verdicts, strict=True):
        assert all(plain(answer.answer) in row for answer in verdict.answers)
    assert "![speedup](curve.svg)" in text


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.parent.name)
def test_the_picture_is_one_file_that_asks_for_no_other(path: Path) -> None:
    picture = summary_picture(read_document(path))
    assert picture is not None
    root = etree.fromstring(picture.encode())
    assert root.tag.endswith("svg")
    links = [str(value) for node in root.iter() for name, value in node.items() if name.endswith("href")]
    assert all(link.startswith("#") for link in links)
    assert not re.search(r"url\((?!#)|@import", picture)


def test_without_a_curve_there_is_a_table_and_no_picture() -> None:
    document = plain_document()
    assert "![" not in summary_markdown(document, picture=None)
    assert "| selfspec |" in summary_markdown(document, picture=None)


@pytest.mark.parametrize("text", [*HOSTILE, "a|b", "[x](javascript:1)", "![x](http://e)", "@team\n# head"])
def test_text_of_others_stays_text(text: str) -> None:
    written = plain(text)
    assert "\n" not in written
    assert not re.search(r"(?<!\\)[<|`*\[\]#!]", written)
    assert not re.search(r"@\w", written)
    document = document_of(loaded(plain_records(3), suite=text))
    assert not re.search(r"(?<!\\)<", summary_markdown(document, picture=None))


def test_a_page_without_pictures_holds_none_and_says_why(tmp_path: Path) -> None:
    image = tmp_path / "a.png"
    image.write_bytes(_grey_png())
    records = plain_records(3)
    sources = {
        r.sample_id: SampleSource(image_path=str(image), reference="r", categories={}) for r in records["ar"]
    }
    assert all(sample.image for sample in document_of(loaded(records), sources=sources).gallery)
    without = document_of(loaded(records), sources=without_pictures(sources))
    assert all(sample.image is None for sample in without.gallery)
    assert {sample.image_note for sample in without.gallery} == {"not shown: left out with --no-images"}


def _grey_png() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 2, 2, 8, 0, 0, 0, 0)
    rows = zlib.compress(b"\0\x80\x80" * 2)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
