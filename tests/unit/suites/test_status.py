"""What `suites list`, `suites show` and `doctor` say of page data: how much is here, or how to get it."""

from pathlib import Path
from typing import Any

import pytest
from page_support import entry, page_suite, write_folder

from gravbench.cli import doctor_command as doctor
from gravbench.cli.app import run_command_line
from gravbench.suites.manifest import Suite, load_suite
from gravbench.suites.status import find_data


def placed(root: Path, **update: Any) -> Suite:
    pages = write_folder(root / "omnidoc16", [entry("notes_a.png"), entry("notes_b.png")])
    return page_suite(pages.model_copy(update=update))


@pytest.mark.parametrize(
    ("update", "words"),
    [
        ({}, "found"),
        ({"release_pages": 1651, "annotation_sha256": "0" * 64}, "2 of 1,651 found (partial copy)"),
        ({"annotation_sha256": "0" * 64}, "2 of 2 found (changed copy)"),
        ({"annotation_sha256": "0" * 64, "release_pages": 9, "subsets": ("hard",)}, "found, unusable"),
    ],
)
def test_a_copy_is_counted_unless_it_is_whole(tmp_path: Path, update: dict[str, Any], words: str) -> None:
    suite = placed(tmp_path, **update)
    found = find_data(suite, environ={"GRAVBENCH_DATA": str(tmp_path)})
    assert found.state == "found"
    assert found.describe(suite.pages) == words


@pytest.mark.parametrize("environ", [{}, {"GRAVBENCH_DATA": "/nowhere"}])
def test_data_that_is_not_here_is_missing_with_the_way_to_get_it(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    suite = placed(tmp_path)
    found = find_data(suite, environ=environ)
    assert (found.state, found.describe(suite.pages)) == ("missing", "missing")
    assert "suites fetch" in (found.hint or "")


def test_the_list_counts_a_partial_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    placed(tmp_path)
    monkeypatch.setenv("GRAVBENCH_DATA", str(tmp_path))
    assert run_command_line(["suites", "list"]) == 0
    assert "2 of 1,651 found" in capfd.readouterr().out
    assert run_command_line(["suites", "show", "omnidoc16"]) == 0
    assert "partial copy of OmniDocBench v1.6: 2 of 1,651 pages" in " ".join(capfd.readouterr().out.split())


def test_doctor_says_what_is_not_here_and_counts_pages_that_ship(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRAVBENCH_DATA", raising=False)
    monkeypatch.setattr(doctor, "list_suites", lambda: (load_suite("omnidoc16"), load_suite("pages-mini")))
    absent, shipped = doctor.check_suites()
    assert (absent.status, shipped.status) == ("warn", "ok")
    assert absent.message.startswith("data not here")
    assert "suites fetch omnidoc16" in (absent.hint or "")
    assert shipped.message.startswith("26 pages")
