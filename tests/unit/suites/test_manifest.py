"""Manifests and annotations are refused with file, field and value, never silently repaired."""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from gravbench.errors import DataError, UsageError
from gravbench.suites.manifest import list_suites, load_samples, load_suite
from gravbench.suites.status import verify_suite

TABLES = {
    "prompts": '[prompts]\ntext = "Text Recognition:"\n',
    "max_new_tokens": "[max_new_tokens]\ntext = 10\n",
}


def _annotation(folder: Path, name: str = "a", **changes: object) -> dict[str, object]:
    image = folder / "data" / f"{name}.png"
    if not image.exists():
        Image.new("L", (16, 16), 255).save(image)
    digest = hashlib.sha256(image.read_bytes()).hexdigest()
    record: dict[str, object] = {
        "sample_id": name,
        "task": "text",
        "image": f"{name}.png",
        "image_sha256": digest,
        "reference": "abc",
        "attributes": {"kind": "line", "seed": 3, "unseen_font": False},
    }
    return {key: value for key, value in (record | changes).items() if value is not None}


def _suite(
    folder: Path, lines: bytes | list[dict[str, object]], *, extra: str = "", tables: str | None = None
) -> Path:
    (folder / "data").mkdir(exist_ok=True)
    data = (
        lines if isinstance(lines, bytes) else b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    )
    (folder / "data" / "samples.jsonl").write_bytes(data)
    path = folder / "tiny.toml"
    path.write_text(
        f'name = "tiny"\nversion = 1\ndescription = "d"\nkind = "crops"\nscorer = "crops"\ndata = "data"\n'
        f'annotation_sha256 = "{hashlib.sha256(data).hexdigest()}"\n{extra}'
        + ("".join(TABLES.values()) if tables is None else tables)
    )
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path


def test_samples_come_sorted_with_absolute_images(folder: Path) -> None:
    suite = load_suite(_suite(folder, [_annotation(folder, name) for name in ("b", "a", "c")]))
    samples = load_samples(suite)
    assert [sample.sample_id for sample in samples] == ["a", "b", "c"]
    assert samples[0].image_path == str((folder / "data" / "a.png").resolve())
    assert samples[0].attributes == {"kind": "line", "seed": 3, "unseen_font": False}
    assert samples[0].attributes["unseen_font"] is False
    assert (suite.tasks, suite.max_new_tokens["text"]) == (("text",), 10)


def test_select_keeps_the_named_samples_only(folder: Path) -> None:
    lines = [_annotation(folder, name) for name in "abc"]
    assert [
        s.sample_id for s in load_samples(load_suite(_suite(folder, lines, extra='select = ["c", "a"]\n')))
    ] == [
        "a",
        "c",
    ]
    with pytest.raises(DataError, match=r"tiny\.toml: field select: 'z'"):
        load_samples(load_suite(_suite(folder, lines, extra='select = ["z"]\n')))


def test_unknown_suite_suggests_the_nearest(folder: Path) -> None:
    _suite(folder, [_annotation(folder)])
    with pytest.raises(UsageError, match="unknown suite 'tinny'") as caught:
        load_suite("tinny", root=folder)
    assert caught.value.hint == "did you mean tiny?"
    with pytest.raises(UsageError) as caught:
        load_suite("qqqqqqqq", root=folder)
    assert caught.value.hint == "known suites: tiny"
    with pytest.raises(UsageError, match="no such file"):
        load_suite("nowhere/tiny.toml")


def test_no_manifests_at_all_is_a_data_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no suite manifests"):
        load_suite("smoke", root=tmp_path)
    assert list_suites(root=tmp_path) == ()


@pytest.mark.parametrize(
    ("extra", "tables", "message"),
    [
        ("verison = 2\n", None, r"tiny\.toml:8: unknown key 'verison'"),
        ("", "[extra]\n" + "".join(TABLES.values()), r"tiny\.toml:8: unknown key 'extra'"),
        ('manifest_path = "x"\n', None, "unknown key 'manifest_path'"),
        ("", TABLES["prompts"], "field max_new_tokens: missing"),
        (
            "",
            TABLES["prompts"] + "[max_new_tokens]\ntext = 0\n",
            r"max_new_tokens\.text: 0",
        ),
        (
            "",
            TABLES["prompts"] + "[max_new_tokens]\ntext = true\n",
            r"max_new_tokens\.text: True",
        ),
        (
            "",
            TABLES["prompts"] + "[max_new_tokens]\ntable = 9\n",
            "must name the same tasks",
        ),
        ("", "[prompts]\nchart = 1\n", "field prompts"),
        ("version = 2\n", None, "not a TOML file"),
        ("= 3\n", None, r"not a TOML file.*line 8"),
    ],
)
def test_bad_manifests_name_file_and_key(folder: Path, extra: str, tables: str | None, message: str) -> None:
    path = _suite(folder, [_annotation(folder)], extra=extra, tables=tables)
    with pytest.raises(DataError, match=message):
        load_suite(path)


def test_manifest_that_is_not_utf8_or_has_another_name_is_refused(folder: Path) -> None:
    path = _suite(folder, [_annotation(folder)])
    renamed = path.rename(folder / "other.toml")
    with pytest.raises(DataError, match="field name: 'tiny', expected 'other'"):
        load_suite(renamed)
    renamed.write_bytes(b'name = "\xff"\n')
    with pytest.raises(DataError, match="not a TOML file"):
        load_suite(renamed)


@pytest.mark.parametrize("data", ["/tmp", "../elsewhere", "a/../../b", "link"])
def test_data_folder_outside_the_manifest_folder_is_refused(
    folder: Path, data: str, tmp_path_factory
) -> None:  # type: ignore[no-untyped-def]
    (folder / "link").symlink_to(tmp_path_factory.mktemp("outside"))
    path = _suite(folder, [_annotation(folder)])
    path.write_text(path.read_text().replace('data = "data"', f'data = "{data}"'))
    with pytest.raises(DataError, match="field data"):
        load_suite(path)


def test_missing_data_folder_and_annotations_are_data_errors(folder: Path) -> None:
    suite = load_suite(_suite(folder, [_annotation(folder)]))
    (folder / "data" / "samples.jsonl").unlink()
    with pytest.raises(DataError, match=r"samples\.jsonl: cannot open annotation file: No such file"):
        load_samples(suite)
    (folder / "data").rename(folder / "moved")
    with pytest.raises(DataError, match=r"data folder .* not found"):
        load_samples(suite)


def test_changed_annotations_are_refused(folder: Path) -> None:
    suite = load_suite(_suite(folder, [_annotation(folder)]))
    with (folder / "data" / "samples.jsonl").open("ab") as stream:
        stream.write(b"\n")
    with pytest.raises(DataError, match=r"sha256 is .*, the suite expects"):
        load_samples(suite)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sample_id": "../x"}, r"samples\.jsonl:1: field sample_id: '\.\./x'"),
        ({"sample_id": ""}, "field sample_id"),
        ({"task": "chart"}, "field task: 'chart'"),
        ({"reference": None}, "field reference: missing"),
        ({"reference": 5}, "field reference: 5"),
        ({"reference": "\ud800"}, "half a surrogate pair|not a JSON object|field reference"),
        ({"image_sha256": "0" * 64}, "field image_sha256: 000"),
        ({"image_sha256": "abc"}, "field image_sha256"),
        ({"image": "gone.png"}, "field image: 'gone.png' not found"),
        ({"image": "."}, "field image"),
        ({"image": "/etc/passwd"}, "expected a relative path"),
        ({"image": "../data/a.png"}, "expected a relative path"),
        ({"image": "x\\..\\a.png"}, "expected a relative path"),
        ({"image": "a\0.png"}, "expected a path without control characters"),
        ({"attributes": {"x": 1.5}}, r"field attributes"),
        ({"attributes": []}, r"field attributes"),
        ({"extra": 1}, "unknown key 'extra'"),
    ],
)
def test_bad_annotations_name_line_and_field(folder: Path, changes: dict[str, object], message: str) -> None:
    suite = load_suite(_suite(folder, [_annotation(folder, **changes)]))
    with pytest.raises(DataError, match=message):
        load_samples(suite)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "samples.jsonl:2: not a JSON object"),
        (b"[1]", "samples.jsonl:2: list, expected a JSON object"),
        (b"\xff", "samples.jsonl:2: not UTF-8"),
        (b'{"task": "text", "task": "table"}', "samples.jsonl:2: not a JSON object: a key occurs twice"),
        (b"[" * 200_000, "samples.jsonl:2: not a JSON object"),
    ],
)
def test_bad_lines_are_named_by_number(folder: Path, line: bytes, message: str) -> None:
    good = json.dumps(_annotation(folder)).encode()
    suite = load_suite(_suite(folder, good + b"\n" + line + b"\n"))
    with pytest.raises(DataError, match=message):
        load_samples(suite)


def test_empty_and_repeated_samples_are_refused(folder: Path) -> None:
    with pytest.raises(DataError, match="no samples"):
        load_samples(load_suite(_suite(folder, b"\n")))
    with pytest.raises(DataError, match=r"samples\.jsonl:2: field sample_id: 'a' occurs twice"):
        load_samples(load_suite(_suite(folder, [_annotation(folder)] * 2)))


def test_sample_of_a_task_without_prompt_is_refused(folder: Path) -> None:
    with pytest.raises(DataError, match="no prompt for task 'table' of a"):
        load_samples(load_suite(_suite(folder, [_annotation(folder, task="table")])))


@pytest.mark.parametrize("make", [os.symlink, None])
def test_image_linked_from_outside_is_refused(
    folder: Path, make: Callable[..., None] | None, tmp_path: Path
) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-outside.png"
    Image.new("L", (16, 16)).save(outside)
    link = folder / "data" / "link.png"
    if make is None:
        (folder / "data" / "sub").symlink_to(outside.parent)
        image = f"sub/{outside.name}"
    else:
        make(outside, link)
        image = "link.png"
    line = _annotation(folder, image=image, image_sha256=hashlib.sha256(outside.read_bytes()).hexdigest())
    with pytest.raises(DataError, match="leads outside"):
        load_samples(load_suite(_suite(folder, [line])))


def test_verify_decodes_the_images_of_crops_too(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    good = _annotation(tmp_path, "a")
    torn = tmp_path / "data" / "b.png"
    Image.effect_noise((64, 64), 40).save(torn)
    torn.write_bytes(torn.read_bytes()[:-400])
    suite = load_suite(_suite(tmp_path, [good, _annotation(tmp_path, "b")]))
    assert len(load_samples(suite)) == 2
    found = verify_suite(suite, None)
    assert (found.crops, found.ok) == (2, False)
    (fault,) = found.faults
    assert fault.startswith("b: ") and "does not decode" in fault


def test_a_folder_with_one_manifest_is_that_suite(folder: Path) -> None:
    path = _suite(folder, [_annotation(folder)])
    assert load_suite(str(folder)) == load_suite(folder) == load_suite(path)


def test_a_folder_that_is_no_suite_says_what_to_pass(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(UsageError, match=r"--suite data: no suite manifest") as none:
        load_suite("data")
    assert "--suite omnidoc16 --data DIR" in (none.value.hint or "")
    (folder / "data" / "OmniDocBench.json").write_text("[]")
    with pytest.raises(UsageError, match="a folder of pages, expected a suite") as pages:
        load_suite("data")
    assert (pages.value.hint or "").endswith("--suite omnidoc16 --data data")
    for name in ("a", "b"):
        (folder / f"{name}.toml").write_text("")
    with pytest.raises(UsageError, match=r"2 manifests in this folder: a\.toml, b\.toml"):
        load_suite(folder)
