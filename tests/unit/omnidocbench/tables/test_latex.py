from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from omnidoc_cases import cases
from system_packages import needs_latexml

from gravbench.metrics.table_html import normalize_html_table
from gravbench.metrics.teds import teds_pair
from gravbench.omnidocbench.tables import latex as latex_table
from gravbench.omnidocbench.tables.latex import MAX_SOURCE_CHARS, latex_to_html, latexml_available
from gravbench.omnidocbench.text import braces_balanced, environments_balanced


@needs_latexml
@pytest.mark.parametrize("case", cases("latex_table"), ids=lambda case: f"{case['id']}-{case['tag']}")
def test_official_conversions_are_reproduced(case: dict) -> None:
    expected = case["expected"]
    html = latex_to_html(case["pred"])
    assert html == expected["html"]
    assert normalize_html_table(html) == expected["renorm"]
    result = teds_pair(normalize_html_table(case["gt"]), html)
    assert (result.teds, result.teds_s) == pytest.approx((expected["teds"], expected["teds_s"]), abs=1e-9)


@pytest.mark.parametrize(
    "source",
    [
        "\\begin{tabular}{l} a {",
        "\\begin{tabular}{l} a \\end{table}",
        "\\begin{tabular}{l}" + "x" * MAX_SOURCE_CHARS + "\\end{tabular}",
        "\\begin{tabular}{l}\\input{/etc/passwd}\\end{tabular}",
        "\\begin{tabular}{l}\\csname in" + "put\\endcsname{/etc/passwd}\\end{tabular}",
        "\\begin{tabular}{l}\\^^69nput{/etc/passwd}\\end{tabular}",
    ],
    ids=["braces", "environments", "length", "input", "csname", "carets"],
)
def test_refused_sources_never_reach_the_converter(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def reached(document: str) -> str:
        raise AssertionError(document)

    monkeypatch.setattr(latex_table, "_run_latexml", reached)
    assert latex_to_html.__wrapped__(source) == ""


def fake_converter(folder: Path, script: str) -> None:
    program = folder / "latexmlc"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


def test_without_latexml_every_conversion_is_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not latexml_available()
    assert latex_to_html.__wrapped__("\\begin{tabular}{l}a\\end{tabular}") == ""


def test_a_converter_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_converter(tmp_path, "sleep 60")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(latex_table, "TIMEOUT_S", -4.8)
    assert latex_to_html.__wrapped__("\\begin{tabular}{l}a\\end{tabular}") == ""


def test_a_converter_sees_only_the_path_and_its_scratch_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_converter(
        tmp_path,
        'test -z "$SECRET" && test "$HOME" = "$PWD" && echo "<table><td>ok</td></table>" > table.html',
    )
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SECRET", "x")
    assert "<td>ok</td>" in latex_to_html.__wrapped__("\\begin{tabular}{l}a\\end{tabular}")


@pytest.mark.parametrize(
    ("source", "balanced"),
    [
        ("", True),
        ("{a}", True),
        ("}{", False),
        ("{", False),
        ("\\{", True),
        ("\\{{}", True),
        ("\\\\{}", False),
    ],
)
def test_braces(source: str, balanced: bool) -> None:
    assert braces_balanced(source) is balanced


@pytest.mark.parametrize(
    ("source", "balanced"),
    [
        ("", True),
        ("\\begin{a}\\begin{b}\\end{b}\\end{a}", True),
        ("\\begin{a}\\begin{b}\\end{a}\\end{b}", False),
        ("\\begin{a}", False),
        ("\\end{a}", False),
    ],
)
def test_environments(source: str, balanced: bool) -> None:
    assert environments_balanced(source) is balanced
