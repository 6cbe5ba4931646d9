"""What `gate` and `bless` say when a run, a reader or a place to write lets them down."""

import json
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from run_support import child_environment

from gravbench.cli.app import run_command_line

RUN = ["run", "--suite", "smoke", "--backend", "toy", "--quiet", "--limit", "6"]


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run a with its reference; run b whose selfspec says something else in one sample; run c of one page."""
    folder = tmp_path_factory.mktemp("faults")
    assert run_command_line([*RUN, "--out", str(folder / "a")]) == 0
    assert run_command_line([*RUN, "--out", str(folder / "b")]) == 0
    pages = ["--pages", "page-*1*", "--stratify", "layout"]
    assert run_command_line([*RUN, "--out", str(folder / "c"), *pages, "--seed", "3"]) == 0
    spoil(folder / "b")
    for name in ("a", "c"):
        assert bless(folder / name, folder / f"ref-{name}") == 0
    return folder


def bless(run: Path, to: Path, *more: str) -> int:
    return run_command_line(["bless", str(run), "--reason", "r", "--who", "me", "--to", str(to), *more])


def spoil(run: Path) -> None:
    shard = run / "gen" / "000.jsonl"
    lines = [json.loads(line) for line in shard.read_text().splitlines()]
    first = next(line for line in lines if line["arm"] == "selfspec" and line["task"] != "page")
    first["pieces"][0]["token_ids"][0] += 1
    shard.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)


def printed(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    capfd.readouterr()
    code = run_command_line(list(arguments))
    captured = capfd.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize(("run", "code"), [("a", 0), ("b", 1)])
@pytest.mark.parametrize("form", [(), ("--json",)])
@pytest.mark.parametrize("streams", ["| true", "2>&1 | true"])
def test_a_reader_that_has_gone_changes_no_exit_code(
    workplace: Path, run: str, code: int, form: tuple[str, ...], streams: str
) -> None:
    gate = ["gate", str(workplace / run), "--reference", str(workplace / "ref-a" / "smoke"), *form]
    words = " ".join(f"'{word}'" for word in [sys.executable, "-m", "gravbench", *gate])
    done = subprocess.run(
        ["bash", "-c", f"{words} {streams}; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        check=False,
        env={**child_environment(), "GITHUB_ACTIONS": "true"},
    )
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert "Broken" not in done.stderr


def test_a_run_that_cannot_be_read_is_a_report_in_every_form(
    workplace: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And an older file does not stand for it."""
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    reference = str(workplace / "ref-a" / "smoke")
    gate = ("gate", str(workplace / "a"), "--reference", reference, "--junit", "gate.xml")
    assert printed(capfd, *gate)[0] == 0
    Path("broken").mkdir()
    Path("broken/manifest.json").write_text("{")
    code, out, err = printed(capfd, "gate", "broken", *gate[2:], "--json")
    report = json.loads(out)
    assert (code, report["exit_code"], report["outcome"]) == (5, 5, "not-comparable")
    assert "manifest.json" in report["problems"][0]
    assert "\nerror: " in err
    suite = ET.parse("gate.xml").getroot()[0]
    assert (suite.get("errors"), suite.get("tests")) == ("1", "1")
    assert "manifest.json" in Path("summary.md").read_text().rpartition("## Gate")[2]


def test_an_older_result_goes_even_when_the_command_is_wrong() -> None:
    Path("gate.xml").write_text("<testsuites/>")
    assert run_command_line(["gate", "--mode", "perhaps", "--junit", "gate.xml"]) == 2
    assert not Path("gate.xml").exists()


@pytest.mark.parametrize(("run", "code"), [("a", 2), ("b", 1)])
@pytest.mark.parametrize("place", ["--junit", "GITHUB_STEP_SUMMARY"])
def test_the_verdict_is_printed_before_a_place_is_found_unwritable(
    workplace: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    run: str,
    code: int,
    place: str,
) -> None:
    junit = ("--junit", "/proc/nowhere/gate.xml") if place == "--junit" else ()
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "" if junit else "/proc/nowhere/summary.md")
    reference = str(workplace / "ref-a" / "smoke")
    found, out, err = printed(capfd, "gate", str(workplace / run), "--reference", reference, *junit)
    assert found == code
    assert ("PASS" if run == "a" else "FAIL") in out
    assert f"with {place}." in err
    assert "--out" not in err


@pytest.mark.parametrize(
    ("mode", "option"),
    [
        ("candidate", ("--suite", "x")),
        ("candidate", ("--model", "x")),
        ("candidate", ("--data", "x")),
        ("rescore", ("--model", "x")),
        ("rescore", ("--policy", "x")),
        ("rescore", ("--mde",)),
        ("regenerate", ("--referee", "x")),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(
    workplace: Path, capfd: pytest.CaptureFixture[str], mode: str, option: tuple[str, ...]
) -> None:
    run = (str(workplace / "a"),) if mode == "candidate" else ()
    reference = ("--reference", str(workplace / "ref-a" / "smoke"))
    code, out, err = printed(capfd, "gate", *run, "--mode", mode, *reference, *option)
    assert (code, out) == (2, "")
    assert f"takes no {option[0]}" in err


def test_a_chosen_selection_is_in_the_command_and_is_run_again(
    workplace: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = workplace / "ref-c" / "smoke"
    command = tomllib.loads((folder / "ar" / "PROVENANCE.toml").read_text())["command"]
    assert "--stratify layout --pages 'page-*1*'" in command
    code, out, _ = printed(capfd, "gate", "--mode", "regenerate", "--reference", str(folder))
    assert (code, "PASS" in out) == (0, True)


def test_text_that_is_not_that_of_ar_needs_a_word(
    workplace: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert bless(workplace / "b", tmp_path / "ref") == 3
    assert "selfspec in 1 of 6 samples" in capfd.readouterr().err
    assert not (tmp_path / "ref").exists()
    assert bless(workplace / "b", tmp_path / "ref", "--allow-differing") == 0


def test_a_reference_is_never_mixed_of_two_runs(
    workplace: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert bless(workplace / "a", tmp_path / "ref") == 0
    assert run_command_line([*RUN, "--out", "only", "--strategy", "ar"]) == 0
    before = {p: p.read_bytes() for p in (tmp_path / "ref").rglob("*") if p.is_file()}
    assert bless(Path("only"), tmp_path / "ref") == 3
    assert "selfspec" in capfd.readouterr().err
    assert {p: p.read_bytes() for p in (tmp_path / "ref").rglob("*") if p.is_file()} == before


def test_a_place_for_references_is_named_by_its_option(
    workplace: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert bless(workplace / "a", Path("/proc/nowhere")) == 2
    assert "with --to." in capfd.readouterr().err
