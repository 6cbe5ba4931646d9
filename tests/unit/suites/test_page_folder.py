import copy
import json
import re
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from page_support import det, entry, page_suite, write_folder

from gravbench.errors import DataError
from gravbench.pages.regions import PageSample
from gravbench.suites.data import OpenedSuite, Selection, open_suite
from gravbench.suites.manifest import PageSet
from gravbench.suites.page_folder import CopyName, PageData, digest_images, entry_digest, read_page_folder

RELEASE = {"release_pages": 1651, "annotation_sha256": "a" * 64}


def read(folder: Path, pages: PageSet, **options: Any) -> PageData:
    return read_page_folder(pages, folder, **options)


def released(pages: PageSet, **fields: Any) -> PageSet:
    return pages.model_copy(update={**RELEASE, **fields})


def test_complete_copy_is_called_by_its_release_and_page_count(tmp_path: Path) -> None:
    pages = write_folder(tmp_path, [entry("b.png"), entry("a.jpg")])
    data = read(tmp_path, pages)
    assert data.name == CopyName(label="OmniDocBench v1.6 (2 pages)", partial=False, drifted=False)
    assert [sample.sample_id for sample in data.samples] == ["a", "b"]
    assert data.samples[0].attributes == {"language": "english", "layout": "single_column"}


def test_copy_with_fewer_pages_is_named_as_partial(tmp_path: Path) -> None:
    pages = released(write_folder(tmp_path, [entry("notes_a.png")]))
    data = read(tmp_path, pages)
    assert data.name.partial
    assert data.name.label.startswith("partial copy of OmniDocBench v1.6: 1 of 1,651 pages")


def test_selected_pages_are_counted_in_the_label(tmp_path: Path) -> None:
    pages = write_folder(tmp_path, [entry("a.png"), entry("b.png")])
    opened = open_bench(tmp_path, pages, selection=Selection(pages="a"))
    assert opened.data_label == "OmniDocBench v1.6 (2 pages); 1 of these pages in this run"


@pytest.mark.parametrize("count", [1355, 981])
def test_older_release_is_another_version(tmp_path: Path, count: int) -> None:
    pages = released(write_folder(tmp_path, [entry(f"PPT_{n}.png", []) for n in range(count)], images=False))
    with pytest.raises(DataError, match=r"OmniDocBench v1\.[05], not OmniDocBench v1\.6"):
        read(tmp_path, pages)
    drifted = read(tmp_path, pages, allow_drift=True)
    assert drifted.name.drifted


def test_base_subset_of_the_release_is_a_partial_copy_not_an_older_release(tmp_path: Path) -> None:
    entries = [entry(f"{n}.png", [], subset="v1.5") for n in range(1355)]
    data = read(tmp_path, released(write_folder(tmp_path, entries, images=False)))
    assert (data.name.partial, data.name.drifted) == (True, False)


def test_changed_annotation_stops_unless_drift_is_allowed(tmp_path: Path) -> None:
    pages = write_folder(tmp_path, [entry("notes_a.png"), entry("notes_b.png")])
    changed = [entry("notes_a.png"), entry("notes_b.png", [det("title", 0, text="other")])]
    write_folder(tmp_path, changed)
    with pytest.raises(DataError, match=r"changed copy of OmniDocBench v1\.6: 2 pages") as caught:
        read(tmp_path, pages)
    assert "--allow-drift suite" in (caught.value.hint or "")
    assert read(tmp_path, pages, allow_drift=True).name.label.startswith("changed copy of OmniDocBench v1.6")


@pytest.mark.parametrize("count", [1, 2, 3])
def test_own_pages_are_called_by_their_folder_never_a_copy_of_the_release(tmp_path: Path, count: int) -> None:
    folder = tmp_path / "my scans"
    pages = released(write_folder(folder, [entry(f"scan-{n}.png") for n in range(count)]), release_pages=2)
    name = read(folder, pages).name
    assert name.label == f"pages of my scans ({count} page{'s'[: count > 1]})"
    assert (name.own, name.partial, name.drifted) == (True, True, False)


def test_some_pages_of_the_release_among_own_ones_are_counted(tmp_path: Path) -> None:
    folder = tmp_path / "mixed"
    pages = released(write_folder(folder, [entry("scan.png"), entry("newspaper_1.png")]))
    label = read(folder, pages).name.label
    assert label == "pages of mixed (2 pages, 1 of them named as pages of OmniDocBench v1.6)"


def test_a_changed_suite_of_somebody_elses_own_is_still_refused(tmp_path: Path) -> None:
    pages = write_folder(tmp_path, [entry("scan.png")]).model_copy(update={"release": "my bench"})
    write_folder(tmp_path, [entry("scan.png", [det("title", 0, text="other")])])
    with pytest.raises(DataError, match="changed copy of my bench"):
        read(tmp_path, pages)


def with_digests(folder: Path, entries: list[dict[str, Any]]) -> PageSet:
    pages = write_folder(folder, entries)
    samples = read(folder, pages).samples
    from gravbench.imaging import file_digest

    digests = {s.image_name: (entry_digest(s.entry), file_digest(str(s.image_path))) for s in samples}
    (folder / "digests.json").write_text(json.dumps(digests))
    return pages.model_copy(update={"digests": "digests.json"})


def test_known_page_digests_tell_missing_pages_from_changed_ones(tmp_path: Path) -> None:
    entries = [entry(f"{n}.png") for n in range(3)]
    pages = with_digests(tmp_path, entries)
    (tmp_path / "OmniDocBench.json").write_text(json.dumps(entries[:2], indent=3))
    assert read(tmp_path, pages).name.label == "partial copy of OmniDocBench v1.6: 2 of 3 pages"
    worse = copy.deepcopy(entries[:2])
    worse[1]["layout_dets"][0]["text"] = "other"
    (tmp_path / "OmniDocBench.json").write_text(json.dumps(worse))
    with pytest.raises(DataError, match="1 of 2 pages differ"):
        read(tmp_path, pages)


def test_known_digests_catch_a_changed_image(tmp_path: Path) -> None:
    entries = [entry(f"{n}.png") for n in range(3)]
    pages = with_digests(tmp_path, entries)
    (tmp_path / "OmniDocBench.json").write_text(json.dumps(entries[:2]))
    (tmp_path / "images" / "1.png").write_bytes((tmp_path / "images" / "0.png").read_bytes())
    with pytest.raises(DataError, match="1 of 2 pages differ"):
        read(tmp_path, pages)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty file"),
        (b"  \n", "empty file"),
        (b"{", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"{}", "dict, expected a JSON list of pages"),
        (b"[]", "an empty list"),
        (b"[1]", "page 0 has no page_info"),
        (b'[{"images": [], "annotations": []}]', "page 0 has no page_info"),
        (b'[{"page_info": {}}]', "page_info.image_path is missing"),
        (b'[{"page_info": {"image_path": "a.png", "page_attribute": {}}}]', "extra is missing|layout_dets"),
        (b"\xff\xfe\x00", "not JSON"),
    ],
)
def test_annotation_file_of_another_kind_is_one_clear_message(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    pages = write_folder(tmp_path, [entry("a.png")])
    (tmp_path / "OmniDocBench.json").write_bytes(content)
    with pytest.raises(DataError, match=reason):
        read(tmp_path, pages)


def test_missing_annotation_file_says_where_it_belongs(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"OmniDocBench\.json: not found") as caught:
        read(tmp_path, released(write_folder(tmp_path / "other", [entry("a.png")])))
    assert "--data" in (caught.value.hint or "")


def test_two_pages_with_one_prediction_name_are_refused(tmp_path: Path) -> None:
    pages = write_folder(tmp_path, [entry("a.png"), entry("a.jpg")])
    with pytest.raises(DataError, match="share the stem 'a'"):
        read(tmp_path, pages)


def test_hard_suite_on_a_copy_without_hard_pages_is_missing_data(tmp_path: Path) -> None:
    pages = released(write_folder(tmp_path, [entry("a.png", subset="v1.5")]), subsets=("table_hard",))
    with pytest.raises(DataError, match="none of its 1 pages belongs to the suite"):
        read(tmp_path, pages)


def huge_png() -> bytes:
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 0, 0, 0, 0)
    chunk = struct.pack(">I", 13) + b"IHDR" + header
    return b"\x89PNG\r\n\x1a\n" + chunk + struct.pack(">I", zlib.crc32(b"IHDR" + header))


def faults(folder: Path, pages: PageSet) -> dict[str, str | None]:
    return {s.sample_id: s.fault for s in digest_images(read(folder, pages).samples)}


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("gone.png", "image not found"),
        ("../secret.png", "expected a relative path inside"),
        ("/etc/secret.png", "expected a relative path inside"),
        ("x/../../secret.png", "expected a relative path inside"),
        ("link.png", "leads outside"),
    ],
)
def test_image_that_is_not_in_the_folder_fails_its_page_alone(tmp_path: Path, path: str, reason: str) -> None:
    outside = tmp_path / "secret.png"
    outside.write_bytes(b"secret")
    folder = tmp_path / "data"
    pages = write_folder(folder, [entry("good.png"), entry(path)])
    (folder / "images" / Path(path).name).unlink()
    if path == "link.png":
        (folder / "images" / path).symlink_to(outside)
    found = faults(folder, pages)
    assert found.pop("good") is None
    (fault,) = found.values()
    assert fault is not None
    assert reason in fault


def test_images_may_lie_beside_the_annotation_file_or_under_images(tmp_path: Path) -> None:
    pages = write_folder(tmp_path, [entry("images/a.png"), entry("b.png")])
    assert set(faults(tmp_path, pages).values()) == {None}


def test_digest_moves_with_annotation_and_with_image(tmp_path: Path) -> None:
    pages = write_folder(tmp_path, [entry("a.png")])
    first = digest_images(read(tmp_path, pages).samples)[0].image_sha256
    (tmp_path / "images" / "a.png").write_bytes(huge_png())
    second = digest_images(read(tmp_path, pages).samples)[0].image_sha256
    changed = write_folder(tmp_path, [entry("a.png", [])], images=False)
    third = digest_images(read(tmp_path, changed).samples)[0].image_sha256
    assert len({first, second, third}) == 3


def open_bench(folder: Path, pages: PageSet, **options: Any) -> OpenedSuite:
    selection = options.pop("selection", Selection())
    return open_suite(
        page_suite(pages, **options),
        data=folder,
        environ={},
        cache=folder / "cache",
        selection=selection,
        note=lambda _: None,
    )


def test_pages_are_found_under_the_data_variable_and_named_when_not(tmp_path: Path) -> None:
    pages = write_folder(tmp_path / "omnidoc16", [entry("a.png")])

    def opened(environ: dict[str, str]) -> OpenedSuite:
        return open_suite(
            page_suite(pages),
            data=None,
            environ=environ,
            cache=tmp_path / "cache",
            selection=Selection(),
            note=lambda _: None,
        )

    assert isinstance(opened({"GRAVBENCH_DATA": str(tmp_path)}).samples[0], PageSample)
    with pytest.raises(DataError, match="GRAVBENCH_DATA is not set"):
        opened({})
    with pytest.raises(DataError, match="not found"):
        opened({"GRAVBENCH_DATA": str(tmp_path / "nowhere")})


def test_crops_are_cut_by_task_with_bare_references_and_kept(tmp_path: Path) -> None:
    text = {"attribute": {"text_language": "text_english"}}
    blocks = [
        det("title", 0, **text),
        det("text_block", 1, attribute={"text_language": "text_simplified_chinese"}),
        det("table", 2, attribute={"language": "table_en"}),
        det("equation_isolated", 3),
        det("page_number", 4),
        det("text_block", 0, anno_id=9, ignore=True),
        det("text_block", 0, anno_id=10, text=""),
    ]
    pages = write_folder(tmp_path, [entry("a.png", blocks), entry("b.png", [])])
    samples = open_bench(tmp_path, pages, kind="page-crops").samples
    assert [(s.task, s.reference) for s in samples if not isinstance(s, PageSample)] == [
        ("formula", "x"),
        ("table", "<table><tr><td>a</td></tr></table>"),
        ("text", "words 0"),
        ("text", "words 1"),
    ]
    left_out = next((tmp_path / "cache").glob("*/left_out.jsonl")).read_text()
    assert "layout_dets is empty" in left_out
    english = open_bench(tmp_path, pages, kind="page-crops", languages=("english",)).samples
    assert [s.attributes["language"] for s in english] == ["english"] * 3
    assert len(list((tmp_path / "cache").iterdir())) == 1


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("a\x00b.png", "without control characters"),
        ("a\x1b[31m.png", "without control characters"),
        ("a\ud800.png", "half surrogate pairs"),
        ("a" * 300 + ".png", "a name of 300 bytes, expected at most 252"),
        ("d" * 300 + "/a.png", "File name too long"),
        ("loop.png", "[Ss]ymlink loop|Too many levels"),
    ],
)
def test_a_name_that_no_file_can_have_fails_its_page_alone(tmp_path: Path, path: str, reason: str) -> None:
    pages = write_folder(tmp_path, [entry("good.png")])
    (tmp_path / "images" / "loop.png").symlink_to(tmp_path / "images" / "loop.png")
    data = json.dumps([entry("good.png"), entry(path)])
    (tmp_path / "OmniDocBench.json").write_text(data)
    (good, bad) = sorted(
        digest_images(read(tmp_path, released(pages)).samples), key=lambda s: s.fault is not None
    )
    assert good.fault is None
    assert bad.fault is not None
    assert re.search(reason, bad.fault)
    assert "\x1b" not in bad.image_name
    assert len(f"{bad.sample_id}.md".encode()) <= 255
    assert re.fullmatch(r"[\w.-]+", bad.sample_id)


def test_names_that_no_file_can_have_stay_distinct(tmp_path: Path) -> None:
    names = ["a\x00.png", "a\x01.png", "a_.png", "b" * 300 + "1.png", "b" * 300 + "2.png"]
    pages = write_folder(tmp_path, [entry("good.png")])
    (tmp_path / "OmniDocBench.json").write_text(json.dumps([entry(name) for name in names]))
    assert len({s.sample_id for s in read(tmp_path, released(pages)).samples}) == len(names)


def test_a_name_as_long_as_the_disk_allows_is_an_ordinary_one(tmp_path: Path) -> None:
    name = "a" * 251 + ".png"
    pages = write_folder(tmp_path, [entry(name)])
    assert faults(tmp_path, pages) == {"a" * 251: None}


def test_no_page_attributes_at_all_are_no_fault(tmp_path: Path) -> None:
    bare = entry("a.png")
    bare["page_info"]["page_attribute"] = None
    pages = released(write_folder(tmp_path, [bare, entry("b.png", layout="odd \ud800 one")]))
    first, second = read(tmp_path, pages).samples
    assert (first.fault, first.attributes) == (None, {})
    assert second.attributes["layout"] == r"odd \ud800 one"


def test_annotations_that_would_fill_the_memory_are_refused_by_their_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = write_folder(tmp_path, [entry("a.png")])
    monkeypatch.setattr("gravbench.omnidocbench.ground_truth.MAX_ANNOTATION_PARTS", 5)
    with pytest.raises(DataError, match="objects and lists, expected at most 5") as caught:
        read(tmp_path, pages)
    assert caught.value.hint


def test_a_crop_whose_ground_truth_is_no_unicode_is_left_out_by_name(tmp_path: Path) -> None:
    blocks = [det("title", 0), det("text_block", 1, text="half \ud800 pair"), det("text_block", 2)]
    pages = write_folder(tmp_path, [entry("a.png", blocks)])
    samples = open_bench(tmp_path, pages, kind="page-crops").samples
    assert [s.reference for s in samples if not isinstance(s, PageSample)] == ["words 0", "words 2"]
    left_out = json.loads(next((tmp_path / "cache").glob("*/left_out.jsonl")).read_text())
    assert left_out["page"] == "a.png"
    assert left_out["why"].startswith("region 1: half a surrogate pair at character 5")
