"""The shipped page suites are what their generators say they are."""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import features
from system_packages import needs_fonts

from gravbench.imaging import load_image
from gravbench.pages.regions import PageSample
from gravbench.suites.data import OpenedSuite, Selection, data_folder, open_suite
from gravbench.suites.manifest import PageSet, Suite, load_suite
from gravbench.suites.page_folder import read_page_folder
from gravbench.suites.status import verify_suite
from gravbench.workshop.shipped_suites import PageJob, mini_pages, shuffled_line, shuffled_pages, write_pages
from gravbench.workshop.synth.language import split_of


def opened(name: str) -> OpenedSuite:
    return open_suite(
        load_suite(name),
        data=None,
        environ={},
        cache=Path("unused"),
        selection=Selection(),
        note=lambda _: None,
    )


def folder_of(suite: Suite) -> Path:
    folder = data_folder(suite, data=None, environ={})
    assert folder is not None
    return folder


def read_json(path: Path) -> list[dict[str, Any]]:
    pages: list[dict[str, Any]] = json.loads(path.read_bytes())
    return pages


@pytest.fixture(scope="module")
def entries() -> list[dict[str, Any]]:
    return read_json(folder_of(load_suite("pages-mini")) / "OmniDocBench.json")


@pytest.mark.parametrize("name", ["pages-mini", "semantic-shuffle", "smoke", "crops-mini"])
def test_shipped_suite_verifies(name: str) -> None:
    suite = load_suite(name)
    found = verify_suite(suite, data_folder(suite, data=None, environ={}))
    assert found.ok, found.faults
    assert not found.partial


def test_pages_mini_has_every_kind_of_block(entries: list[dict[str, Any]]) -> None:
    assert len(entries) >= 24
    blocks = [det for page in entries for det in page["layout_dets"]]
    counts = Counter(det["category_type"] for det in blocks)
    for category in (
        *("title", "text_block", "table", "table_caption", "equation_isolated", "equation_caption"),
        *("figure", "figure_caption", "header", "page_number", "page_footnote", "code_txt", "reference"),
    ):
        assert counts[category] >= 5, category
    layouts = Counter(page["page_info"]["page_attribute"]["layout"] for page in entries)
    assert min(layouts["single_column"], layouts["double_column"]) >= 10
    assert sum(det.get("attribute", {}).get("with_span", False) for det in blocks) >= 5
    assert sum("$" in det.get("text", "") for det in blocks) >= 8
    assert sum(len(page["extra"]["relation"]) for page in entries) >= 5


def test_texts_of_pages_mini_are_held_out(entries: list[dict[str, Any]]) -> None:
    for page in entries:
        for det in page["layout_dets"]:
            if det["category_type"] == "equation_isolated":
                assert split_of(det["latex"].strip("$")) == "heldout"
            if det["category_type"] == "table":
                assert split_of(det["html"]) == "heldout"


def test_images_are_small(entries: list[dict[str, Any]]) -> None:
    images = folder_of(load_suite("pages-mini")) / "images"
    assert len(list(images.iterdir())) == len(entries)
    assert sum(path.stat().st_size for path in images.iterdir()) < 4_000_000


def test_smoke_is_twelve_crops_and_two_pages_one_of_each_layout() -> None:
    smoke = opened("smoke")
    assert Counter(sample.task for sample in smoke.samples) == {
        "text": 4,
        "table": 4,
        "formula": 4,
        "page": 2,
    }
    assert {page.attributes["layout"] for page in smoke.samples if page.page} == {
        "single_column",
        "double_column",
    }


def test_semantic_shuffle_pairs_every_line_and_page_with_its_shuffle() -> None:
    pairs = Counter(
        (str(sample.attributes["pair"]), str(sample.attributes["words"]))
        for sample in opened("semantic-shuffle").samples
    )
    names = {name for name, _ in pairs}
    assert len(names) == 46
    assert set(pairs.values()) == {1}
    assert len(pairs) == 2 * len(names)


def same_renderers() -> bool:
    drawn_with = json.loads((load_suite("crops-mini").data_dir / "drawn_with.json").read_text())
    import matplotlib
    import PIL

    return (drawn_with["pillow"], drawn_with["freetype"], drawn_with["matplotlib"]) == (
        PIL.__version__,
        features.version("freetype2"),
        matplotlib.__version__,
    )


@needs_fonts
@pytest.mark.parametrize(
    ("name", "pages", "chosen"),
    [("pages-mini", mini_pages, (0, 13, 14, 25)), ("semantic-shuffle", shuffled_pages, (2, 3))],
)
def test_generator_rebuilds_the_shipped_pages(
    name: str, pages: Callable[[], Iterable[PageJob]], chosen: tuple[int, ...]
) -> None:
    """Equal ground truth and pixels with the recorded renderers; elsewhere the same kinds of blocks."""
    folder = folder_of(load_suite(name))
    shipped = {page["page_info"]["image_path"]: page for page in read_json(folder / "OmniDocBench.json")}
    jobs = list(pages())
    assert [job.name for job in jobs] == list(shipped)
    for job in (jobs[index] for index in chosen):
        rebuilt = job.render()
        if same_renderers():
            assert rebuilt.entry == shipped[job.name]
            image = load_image(folder / "images" / job.name)
            assert np.array_equal(np.asarray(rebuilt.image), np.asarray(image))
        else:
            kinds = [
                [det["category_type"] for det in page["layout_dets"]]
                for page in (rebuilt.entry, shipped[job.name])
            ]
            assert kinds[0] == kinds[1]


@needs_fonts
def test_generator_rebuilds_the_shipped_lines() -> None:
    samples = {s.sample_id: s for s in opened("semantic-shuffle").samples if not isinstance(s, PageSample)}
    for number in (0, 17, 39):
        for sample_id, crop in shuffled_line(number):
            assert crop.text == samples[sample_id].reference
            if same_renderers():
                shipped = load_image(samples[sample_id].image_path)
                assert np.array_equal(np.asarray(crop.image), np.asarray(shipped))


@needs_fonts
def test_build_writes_a_folder_that_verifies(tmp_path: Path) -> None:
    built = write_pages(list(mini_pages())[:2], tmp_path)
    pages = PageSet(
        data="x",
        annotation_sha256=built.annotation_sha256,
        release="two pages",
        release_pages=2,
        digests="digests.json",
    )
    assert read_page_folder(pages, tmp_path).name.label == "two pages (2 pages)"
