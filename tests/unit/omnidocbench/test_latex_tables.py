from __future__ import annotations

import os
import stat
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest
from omnidoc_cases import cases
from system_packages import needs_latexml

from gravbench.metrics.table_html import normalize_html_table
from gravbench.metrics.teds import teds_pair
from gravbench.omnidocbench import table_conversion
from gravbench.omnidocbench.table_conversion import LatexTables, latexml_available
from gravbench.omnidocbench.text import MAX_LATEX_CHARS


@needs_latexml
@pytest.mark.parametrize("case", cases("latex_table"), ids=lambda case: f"{case['id']}-{case['tag']}")
def test_official_conversions_are_reproduced(case: dict) -> None:
    expected = case["expected"]
    html = LatexTables().html(case["pred"])
    assert html == expected["html"]
    assert normalize_html_table(html) == expected["renorm"]
    result = teds_pair(normalize_html_table(case["gt"]), html)
    assert (result.teds, result.teds_s) == pytest.approx((expected["teds"], expected["teds_s"]), abs=1e-9)


@pytest.mark.parametrize(
    "source",
    [
        "\\begin{tabular}{l} a {",
        "\\begin{tabular}{l} a \\end{table}",
        "\\begin{tabular}{l}" + "x" * MAX_LATEX_CHARS + "\\end{tabular}",
        "\\begin{tabular}{l}\\input{/etc/passwd}\\end{tabular}",
        "\\begin{tabular}{l}\\openin5=x\\read5 to\\y\\end{tabular}",
        "\\begin{tabular}{l}\\immediate\\write5{x}\\end{tabular}",
    ],
    ids=["braces", "environments", "length", "input", "read", "write"],
)
def test_refused_sources_never_reach_the_converter(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def reached(document: str) -> str:
        raise AssertionError(document)

    monkeypatch.setattr(table_conversion, "_run_latexml", reached)
    found = LatexTables().convert(source)
    assert (found.html, bool(found.reason)) == ("", True)


def fake_converter(folder: Path, script: str) -> None:
    program = folder / "latexmlc"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


def test_without_latexml_a_table_is_empty_until_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not latexml_available()
    source = "\\begin{tabular}{l}a\\end{tabular}"
    assert "latexmlc, which is not installed" in str(LatexTables().convert(source).reason)
    fake_converter(tmp_path, 'echo "<table><td>now</td></table>" > table.html')
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin")
    assert "<td>now</td>" in LatexTables().html(source), "what a missing program prevented is tried again"


def test_a_converted_table_is_kept_on_disk_and_a_failure_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_converter(tmp_path, 'echo run >> "$0.runs"; echo "<table><td>kept</td></table>" > table.html')
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin")
    runs, good, source = tmp_path / "latexmlc.runs", tmp_path / "good", "\\begin{tabular}{l}a\\end{tabular}"
    first, second = (LatexTables(good).convert(source) for _ in range(2))
    assert "<td>kept</td>" in first.html
    assert second == first
    assert runs.read_text() == "run\n"
    LatexTables(good).html(source.replace("a", "b"))
    assert runs.read_text() == "run\n" * 2, "another table is another entry"
    fake_converter(tmp_path, 'echo "<p>nothing</p>" > table.html # changed')
    assert [LatexTables(good).html(source) for _ in range(2)] == ["", ""], "another program is another entry"


def test_a_converter_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_converter(tmp_path, "sleep 60")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(table_conversion, "TIMEOUT_S", -4.8)
    assert LatexTables().html("\\begin{tabular}{l}a\\end{tabular}") == ""


def test_a_converter_sees_only_the_path_and_its_scratch_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_converter(
        tmp_path,
        'test -z "$SECRET" && test "$HOME" = "$PWD" && echo "<table><td>ok</td></table>" > table.html',
    )
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SECRET", "x")
    assert "<td>ok</td>" in LatexTables().html("\\begin{tabular}{l}a\\end{tabular}")


@needs_latexml
@pytest.mark.parametrize(
    "body",
    [
        "\\usepackage{array}\\begin{tabular}{c}2\\end{tabular}",
        "\\begin{tabular}{c}\\special{x}2\\end{tabular}",
        "\\begin{tabular}{c}\\csname relax\\endcsname 2\\end{tabular}",
        "\\begin{tabular}{c}\\^^72elax 2\\end{tabular}",
        "\\begin{tabular}{c}2\\begin {group}\\end{tabular}",
    ],
    ids=["usepackage", "special", "csname", "carets", "blank"],
)
def test_what_the_official_converter_takes_is_converted(body: str) -> None:
    html = LatexTables().html(f"\\begin{{table}}{body}\\end{{table}}")
    assert "<td>2" in html


@needs_latexml
@pytest.mark.parametrize(
    "body",
    [
        "\\csname in" + "put\\endcsname{secret}",
        "\\csname @@in" + "put\\endcsname secret ",
        "\\^^69nput{secret}",
    ],
)
def test_a_file_command_put_together_by_tex_reads_nothing(body: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret.tex"
    secret.write_text("classified", encoding="utf-8")
    source = body.replace("secret", str(secret))
    assert "classified" not in LatexTables().html(f"\\begin{{tabular}}{{l}}{source}\\end{{tabular}}")


@needs_latexml
def test_a_conversion_leaves_empty_files_of_others_in_the_temporary_folder() -> None:
    """LaTeXML tidies the folder that it takes for temporary; this was once `/tmp`."""
    with NamedTemporaryFile(dir="/tmp") as others:
        assert LatexTables().html(r"\begin{tabular}{c}x\end{tabular}")
        assert Path(others.name).exists()
