"""Which copy of the pages a run read: named in every place, found again, and never exchanged silently."""

import json
from pathlib import Path
from typing import Any

import pytest
from lxml import etree
from page_support import entry, page_suite, write_folder
from run_support import FakeBackend, QuietProgress

from gravbench.analysis.comparison import compare_one, compare_runs
from gravbench.analysis.curve import curve_of
from gravbench.analysis.loaded import LoadedRun, load_run
from gravbench.analysis.run_analysis import AnalysisOptions
from gravbench.cli.compare_command import comparison_parts
from gravbench.cli.gate_command import verdict_parts
from gravbench.cli.output import print_tables
from gravbench.cli.run_command import curve_parts
from gravbench.cli.summary_table import summary_parts
from gravbench.errors import DataError, NotComparableError, UsageError
from gravbench.gate.bless import bless_changes, provenance_text, write_reference
from gravbench.gate.candidate import judge_candidate
from gravbench.gate.exact import rescore
from gravbench.gate.policy import load_policy
from gravbench.gate.reference import load_reference
from gravbench.gate.verdict import junit_xml, step_summary
from gravbench.options import RunOptions
from gravbench.pages.layouts import GroundTruthLayout
from gravbench.reporting.builder import ReportInput, build_document
from gravbench.reporting.html import render_report
from gravbench.runner import samples as run_samples
from gravbench.runner.run import Outcome, run
from gravbench.runner.samples import samples_of_run
from gravbench.store.rundir import RunDirectory
from gravbench.suites.data import OpenedSuite, Selection, open_suite
from gravbench.suites.manifest import Suite

PARTIAL = "partial copy of OmniDocBench v1.6: 3 of 1,651 pages"
QUICK = AnalysisOptions(resamples=100)


@pytest.fixture(autouse=True)
def _no_shared_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_samples, "crops_cache", lambda: tmp_path / "cache")
    monkeypatch.delenv("GRAVBENCH_DATA", raising=False)


def pages(count: int = 3) -> list[dict[str, Any]]:
    return [entry(f"page-{n}.png", subset="v1.5") for n in range(count)]


def bench(folder: Path, *, kind: str, release_pages: int = 1651) -> Suite:
    page_set = write_folder(folder, pages())
    digest = "0" * 64 if release_pages == 1651 else page_set.annotation_sha256
    changes = {"release_pages": release_pages, "annotation_sha256": digest}
    return page_suite(page_set.model_copy(update=changes), kind=kind)


def opened(suite: Suite, folder: Path, **selection: Any) -> OpenedSuite:
    return open_suite(
        suite,
        data=folder,
        environ={},
        cache=folder.parent / "cache",
        selection=Selection(**selection),
        note=lambda _: None,
    )


def run_on(found: OpenedSuite, out: Path) -> Outcome:
    return run(
        RunOptions(suite="bench", out=out, backend="fake"),
        found.suite,
        found.samples,
        open_backend=lambda _options, _suite: FakeBackend(),
        progress=QuietProgress(),
        environ={},
        opened=found,
        open_layout=lambda _options: GroundTruthLayout(),
    )


def made(tmp_path: Path, kind: str, **selection: Any) -> tuple[Outcome, LoadedRun, Suite]:
    suite = bench(tmp_path / "data", kind=kind)
    outcome = run_on(opened(suite, tmp_path / "data", **selection), tmp_path / "r")
    return outcome, load_run(tmp_path / "r"), suite


def edit_annotations(folder: Path, change: str) -> None:
    path = folder / "OmniDocBench.json"
    path.write_text(path.read_text().replace("words 1", change))


def said(capsys: pytest.CaptureFixture[str], parts: Any) -> str:
    capsys.readouterr()
    print_tables(*parts)
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("kind", ["pages", "page-crops"])
def test_every_output_names_a_partial_copy(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome, loaded, _ = made(tmp_path, kind)
    assert PARTIAL in str(loaded.manifest.protocol["data"])
    assert PARTIAL in (tmp_path / "r" / "summary.json").read_text()
    assert PARTIAL in said(capsys, summary_parts(outcome.summary))
    curve = curve_of(outcome.summary)
    assert PARTIAL in curve.model_dump_json()
    assert PARTIAL in said(capsys, curve_parts(curve))
    for comparison in (compare_one(loaded, QUICK), compare_runs(loaded, loaded, QUICK)):
        assert PARTIAL in comparison.model_dump_json()
        assert PARTIAL in said(capsys, comparison_parts(comparison))
    page = render_report(build_document([ReportInput(run=loaded, name="r", options=QUICK)]))
    tree = etree.HTML(page)
    assert PARTIAL in tree.xpath("string(//p[@class='headline'])")
    assert f"Not the whole benchmark: {PARTIAL}" in tree.xpath("string(//*[@class='cautions'])")
    assert PARTIAL in tree.xpath("string(//dl[@class='facts'][dt='data'])")


def test_references_and_the_gate_name_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, loaded, _ = made(tmp_path, "page-crops")
    assert any(PARTIAL in line for line in bless_changes(loaded, None)[0].lines)
    provenance = provenance_text(loaded, reason="r", who="w", date="d")
    assert f'data = "{PARTIAL}' in provenance
    write_reference(loaded, tmp_path / "ref", quality={arm: {} for arm in loaded.arms}, provenance=provenance)
    reference = load_reference(tmp_path / "ref")
    assert reference.data is not None
    report = judge_candidate(loaded, reference, lambda _: load_policy(()))
    assert report.exit_code == 0
    named = json.loads(report.model_dump_json())
    assert PARTIAL in named["data"]["label"]
    assert named["reference_data"] == named["data"]
    assert PARTIAL in said(capsys, verdict_parts(report))
    assert PARTIAL in step_summary(report)
    (value,) = etree.fromstring(junit_xml(report)).xpath("testsuite/properties/property/@value")
    assert PARTIAL in value


def test_a_reference_on_other_ground_truth_of_the_same_crops_is_not_comparable(tmp_path: Path) -> None:
    _, loaded, suite = made(tmp_path, "page-crops")
    write_reference(loaded, tmp_path / "ref", quality={arm: {} for arm in loaded.arms}, provenance="")
    edit_annotations(tmp_path / "data", "other words")
    run_on(opened(suite, tmp_path / "data"), tmp_path / "b")
    report = judge_candidate(
        load_run(tmp_path / "b"), load_reference(tmp_path / "ref"), lambda _: load_policy(())
    )
    assert report.exit_code == 3
    assert any("references_sha" in problem for problem in report.problems)
    with pytest.raises(NotComparableError, match="references_sha"):
        compare_runs(loaded, load_run(tmp_path / "b"), QUICK)


def test_rescoring_a_reference_on_other_pages_judges_nothing_and_names_the_first(tmp_path: Path) -> None:
    _, loaded, _ = made(tmp_path, "pages")
    write_reference(loaded, tmp_path / "ref", quality={arm: {} for arm in loaded.arms}, provenance="")
    reference = load_reference(tmp_path / "ref")
    inputs = {unit.sample_id: unit.records["ar"].input_sha for unit in loaded.units}
    for changed, words in (
        (inputs | {"page-1": "0" * 64}, "page-1 differs in image or annotation"),
        ({"page-0": inputs["page-0"]}, "page-1 is not in this copy"),
    ):
        suite_sha = loaded.manifest.identity.suite_sha
        report = rescore(reference, lambda _: (), scorer_id="s", suite_sha=suite_sha, inputs=changed)
        assert report.exit_code == 3
        assert words in report.problems[0]


@pytest.mark.parametrize(
    ("kind", "taken"),
    [("pages", "; 2 of these pages in this run"), ("page-crops", "; 2 of its 12 crops in this run")],
)
def test_a_selection_of_the_whole_release_is_partial_and_counted(
    tmp_path: Path, kind: str, taken: str
) -> None:
    suite = bench(tmp_path / "data", kind=kind, release_pages=3)
    outcome = run_on(opened(suite, tmp_path / "data", limit=2), tmp_path / "r")
    assert outcome.summary.data is not None
    assert outcome.summary.data["partial"] is True
    assert outcome.summary.data["label"] == f"OmniDocBench v1.6 (3 pages){taken}"
    whole = run_on(opened(suite, tmp_path / "data"), tmp_path / "w").summary.data
    assert whole is not None
    assert (whole["partial"], whole["label"]) == (False, "OmniDocBench v1.6 (3 pages)")


@pytest.mark.parametrize("kind", ["pages", "page-crops"])
def test_a_stored_run_finds_its_pages_and_refuses_others(tmp_path: Path, kind: str) -> None:
    _, loaded, suite = made(tmp_path, kind)
    records = RunDirectory(tmp_path / "r").generations()
    found = samples_of_run(loaded.manifest, suite, records)
    assert {s.sample_id for s in found} == loaded.sample_ids
    edit_annotations(tmp_path / "data", "other words")
    with pytest.raises(
        NotComparableError, match=r"page-0: image or annotation changed|references_sha"
    ) as raised:
        samples_of_run(loaded.manifest, suite, records)
    assert raised.value.exit_code == 3
    assert "--data" in (raised.value.hint or "")


def test_a_stored_run_follows_data_that_moved_and_names_the_first_page_that_is_gone(tmp_path: Path) -> None:
    _, loaded, suite = made(tmp_path, "pages")
    records = RunDirectory(tmp_path / "r").generations()
    (tmp_path / "data").rename(tmp_path / "moved")
    with pytest.raises(DataError, match="the run's pages lay there"):
        samples_of_run(loaded.manifest, suite, records)
    assert len(samples_of_run(loaded.manifest, suite, records, data=tmp_path / "moved")) == 3
    write_folder(tmp_path / "less", pages()[:1])
    with pytest.raises(NotComparableError, match="page-1: image or annotation not there"):
        samples_of_run(loaded.manifest, suite, records, data=tmp_path / "less")


def test_lost_regions_are_told_on_every_run_and_stay_with_it(tmp_path: Path) -> None:
    suite = bench(tmp_path / "data", kind="page-crops")
    (tmp_path / "data" / "images" / "page-1.png").unlink()
    for out in ("first", "again"):
        notes: list[str] = []
        found = open_suite(
            suite,
            data=tmp_path / "data",
            environ={},
            cache=tmp_path / "cache",
            selection=Selection(),
            note=notes.append,
        )
        loss = (
            "4 regions of 1 page could not be cut and are not in this run, first page-1.png: image not found"
        )
        assert loss in notes[-1]
        outcome = run_on(found, tmp_path / out)
        noted = compare_one(load_run(tmp_path / out), QUICK).base.notes
        assert any(loss in warning for warning in outcome.summary.warnings)
        assert any(loss in note for note in noted)


def test_pages_of_others_never_run_under_the_name_of_a_suite_that_ships_its_own(tmp_path: Path) -> None:
    shipped = bench(tmp_path / "data", kind="pages")
    assert shipped.pages is not None
    suite = shipped.model_copy(
        update={"pages": shipped.pages.model_copy(update={"place": None, "data": "data"})}
    )
    with pytest.raises(UsageError, match="ships its pages"):
        opened(suite, tmp_path / "data")
