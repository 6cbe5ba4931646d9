from pathlib import Path
from typing import Any

import pytest
from page_support import det, entry, page_suite, write_folder

from gravbench.errors import DataError, UsageError
from gravbench.suites.manifest import PageSet, Suite, load_suite
from gravbench.suites.status import fetch_pages, verify_suite


def fetchable(folder: Path) -> Suite:
    pages = write_folder(folder, [entry("a.png")])
    return page_suite(pages.model_copy(update={"repository": "owner/name", "revision": "0" * 40}))


def test_fetch_fills_the_place_and_checks_the_digest(tmp_path: Path) -> None:
    suite = fetchable(tmp_path / "source")
    notes: list[str] = []

    def download(pages: PageSet, folder: Path) -> None:
        assert pages.revision == "0" * 40
        write_folder(folder, [entry("a.png")])

    folder = fetch_pages(
        suite,
        data=None,
        environ={"GRAVBENCH_DATA": str(tmp_path / "data")},
        note=notes.append,
        download=download,
    )
    assert folder == tmp_path / "data" / "omnidoc16"
    assert verify_suite(suite, folder).ok
    assert "research only" in notes[-1]


def test_fetched_file_of_another_digest_is_refused(tmp_path: Path) -> None:
    suite = fetchable(tmp_path / "source")

    def download(_: PageSet, folder: Path) -> None:
        write_folder(folder, [entry("b.png")])

    with pytest.raises(DataError, match="sha256 is"):
        fetch_pages(suite, data=tmp_path / "d", environ={}, note=lambda _: None, download=download)


def test_offline_says_how_to_place_the_files_by_hand(tmp_path: Path) -> None:
    def download(_: PageSet, __: Path) -> None:
        raise ConnectionError("no route to host")

    with pytest.raises(DataError, match="download failed") as caught:
        fetch_pages(
            fetchable(tmp_path / "source"),
            data=tmp_path / "d",
            environ={},
            note=lambda _: None,
            download=download,
        )
    hint = caught.value.hint or ""
    assert "https://huggingface.co/datasets/owner/name at commit 000" in hint
    assert str(tmp_path / "d") in hint
    assert "`gravbench suites verify bench`" in hint


def test_fetch_without_a_place_or_without_a_source_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="GRAVBENCH_DATA is not set") as caught:
        fetch_pages(fetchable(tmp_path / "source"), data=None, environ={}, note=lambda _: None)
    assert "copy both into omnidoc16/ in that folder" in (caught.value.hint or "")
    with pytest.raises(UsageError, match="nothing to fetch"):
        fetch_pages(load_suite("pages-mini"), data=tmp_path, environ={}, note=lambda _: None)


def test_release_of_omnidoc16_is_pinned() -> None:
    for name in ("omnidoc16", "omnidoc16-hard", "omnidoc16-crops", "omnidoc16-crops-en"):
        pages = load_suite(name).pages
        assert pages is not None
        assert pages.release_pages == 1651
        assert pages.revision is not None


def test_verify_names_every_page_with_a_fault(tmp_path: Path) -> None:
    pages = write_folder(tmp_path, [entry("a.png"), entry("b.png"), entry("c.png", [])])
    (tmp_path / "images" / "b.png").write_bytes(b"no image")
    found = verify_suite(page_suite(pages), tmp_path)
    assert not found.ok
    assert [fault.split(":")[0] for fault in found.faults] == ["b.png", "c.png"]


@pytest.mark.parametrize(
    "change",
    [
        {"layout_dets": [det("text_block", 0, poly=[500, 0, 600, 0, 600, 9, 500, 9])]},
        {"layout_dets": [det("text_block", 0, poly=[9, 9, 90, 90, 9, 9, 90, 90])]},
        {"layout_dets": [det("text_block", 0, poly=[10**400] * 8)]},
        {"layout_dets": [det("text_block", 0, order=10**400)]},
        {"layout_dets": [det("text_block", 0, anno_id="\ud800")]},
        {"page_info": {"width": 0}},
        {"page_info": {"width": "800"}},
        {"page_info": {"width": 99_999}},
        {"page_info": {"width": 10**400, "height": 10**400}},
        {"page_info": {"width": 5e-324, "height": 5e-324}},
    ],
)
def test_verify_finds_what_would_fail_a_page_in_a_run(tmp_path: Path, change: dict[str, Any]) -> None:
    bad = entry("b.png")
    bad |= {"layout_dets": change.get("layout_dets", bad["layout_dets"])}
    bad["page_info"] |= change.get("page_info", {})
    suite = page_suite(write_folder(tmp_path, [entry("a.png"), bad]))
    (fault,) = verify_suite(suite, tmp_path).faults
    assert fault.startswith("b.png: ")


def test_verify_lets_pass_what_a_run_does_not_cut(tmp_path: Path) -> None:
    outside = [500, 0, 600, 0, 600, 9, 500, 9]
    blocks = [det("text_block", 0), det("page_number", 1, poly=outside), det("figure", 2, poly=outside)]
    assert verify_suite(page_suite(write_folder(tmp_path, [entry("a.png", blocks)])), tmp_path).ok
