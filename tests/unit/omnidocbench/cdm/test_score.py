"""CDM end to end, with TeX and Ghostscript: official values, cache, faults of the machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cdm_support import golden_cases, golden_pairs, numbers
from system_packages import needs_tex

from gravbench.errors import EngineError
from gravbench.omnidocbench.cdm.score import CdmPair, CdmResult, check_tools, score_pairs
from gravbench.omnidocbench.cdm.tools import Limits, find_tools

pytestmark = needs_tex

SAME = CdmPair(r"\frac{a}{b}", r"\frac{a}{b}")


@pytest.fixture(scope="module")
def golden_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("golden")


@pytest.fixture(scope="module")
def golden_results(golden_cache: Path) -> list[CdmResult]:
    return score_pairs(golden_pairs(), cache_dir=golden_cache)


def test_values_are_the_official_ones(golden_results: list[CdmResult]) -> None:
    """The official scorer's, with TeX Live 2022, ImageMagick 6.9.11, Ghostscript 10.0; no token differs."""
    names = ("recall", "precision", "F1_score", "tp", "gt_tokens", "pred_tokens")
    found = {case["id"]: numbers(result) for case, result in zip(golden_cases(), golden_results, strict=True)}
    assert found == {case["id"]: tuple(case["expected"][name] for name in names) for case in golden_cases()}


def test_an_empty_side_scores_zero_with_its_reason(golden_results: list[CdmResult]) -> None:
    reasons = {
        case["tag"]: result.reason for case, result in zip(golden_cases(), golden_results, strict=True)
    }
    assert reasons["empty-pred"] == "pred: no visible token"
    assert reasons["empty-gt"] == "gt: no visible token"
    assert [reason for tag, reason in reasons.items() if not tag.startswith("empty")] == [None] * (
        len(reasons) - 2
    )


@pytest.mark.usefixtures("no_scratch")
def test_a_second_run_renders_nothing(golden_results: list[CdmResult], golden_cache: Path) -> None:
    again = score_pairs(golden_pairs(), cache_dir=golden_cache)
    assert again == golden_results


def test_renderings_are_shared_between_pairs(golden_cache: Path, golden_results: list[CdmResult]) -> None:
    """A new pair of two known formulas needs no TeX: it is scored although every run would fail."""
    assert golden_results
    pair = CdmPair("a+b", r"\alpha+\beta")
    with_renderings = score_pairs([pair], cache_dir=golden_cache, limits=Limits(memory_kbytes=1))
    assert (with_renderings[0].gt_tokens, with_renderings[0].pred_tokens) == (3, 3)


@pytest.fixture
def no_scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No temporary folder can be made: whoever renders, fails."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "absent"))


def test_results_do_not_depend_on_workers(tmp_path: Path, golden_results: list[CdmResult]) -> None:
    pairs = golden_pairs()[:6]
    assert score_pairs(pairs, cache_dir=tmp_path, workers=2) == golden_results[:6]


def test_the_better_of_two_predictions_counts(tmp_path: Path) -> None:
    result, plain = score_pairs([CdmPair("a+b", "a", "a+b"), CdmPair("a+b", "a+b", "a")], cache_dir=tmp_path)
    assert (result.f1, result.flags) == (1.0, ("alt",))
    assert (plain.f1, plain.flags) == (1.0, ())


def test_an_unparsable_prediction_is_rendered_as_written(tmp_path: Path) -> None:
    result = score_pairs([CdmPair("x", "x & y }")], cache_dir=tmp_path)[0]
    assert "raw-pred" in result.flags


def test_no_pairs_no_results(tmp_path: Path) -> None:
    assert score_pairs([], cache_dir=tmp_path) == []


# --- faults of the machine -------------------------------------------------------------------------------


def fake_tools(folder: Path, **scripts: str) -> str:
    """A search path with both programs, of which some are replaced by shell scripts."""
    folder.mkdir(exist_ok=True)
    for name in ("pdflatex", "gs"):
        real = shutil.which(name)
        assert real is not None
        target = folder / name
        if name in scripts:
            target.write_text(f"#!/bin/sh\nREAL={real}\n{scripts[name]}\n")
            target.chmod(0o755)
        else:
            target.symlink_to(real)
    return str(folder)


def test_missing_tex_names_the_packages(tmp_path: Path) -> None:
    status = check_tools(search_path=str(tmp_path))
    assert not status.available
    assert status.reason and "pdflatex" in status.reason
    assert status.hint and status.hint.startswith(
        "apt-get install --no-install-recommends texlive-latex-base "
    )
    assert status.missing_packages[-1] == "ghostscript"
    with pytest.raises(EngineError, match="pdflatex"):
        score_pairs([SAME], cache_dir=tmp_path / "cache", search_path=str(tmp_path))


def test_a_whole_chain_is_available_and_says_its_versions() -> None:
    status = check_tools()
    assert status.available and status.reason is None
    assert "TeX Live" in dict(status.versions)["pdflatex"]
    assert status.signature and status.signature.startswith("cdm|")


@pytest.mark.parametrize(
    "refusal",
    [
        "case $1 in --version) echo 10;; *) echo 'Error: PDF not allowed by policy' >&2; exit 1;; esac",
        "case $1 in --version) echo 10;; *) exit 0;; esac",
        "case $1 in --version) echo 10;; *) exec $REAL $(echo \"$@\" | sed s/pngalpha/pnggray/);; esac",
    ],
    ids=["refuses", "does nothing", "draws grey"],
)  # fmt: skip
def test_a_ghostscript_that_does_not_draw_disables_cdm(tmp_path: Path, refusal: str) -> None:
    status = check_tools(search_path=fake_tools(tmp_path / "bin", gs=refusal))
    assert not status.available
    assert status.reason and "identical pair" in status.reason
    assert status.hint and "ghostscript" in status.hint


def test_a_missing_style_file_is_traced_to_its_package(tmp_path: Path) -> None:
    kpsewhich = tmp_path / "bin" / "kpsewhich"
    path = fake_tools(tmp_path / "bin", pdflatex="case $1 in --version) echo x;; *) exit 1;; esac")
    kpsewhich.write_text(
        "#!/bin/sh\nfor f; do case $f in upgreek.sty|CJK.sty) ;; *) echo /t/$f;; esac; done\n"
    )
    kpsewhich.chmod(0o755)
    status = check_tools(search_path=path)
    assert status.missing_packages == ("texlive-latex-extra", "latex-cjk-common")
    assert status.hint == "apt-get install --no-install-recommends texlive-latex-extra latex-cjk-common"


def test_imagemagick_is_not_needed(tmp_path: Path) -> None:
    """The official path dies silently when ImageMagick's policy forbids PDF; this one never calls it."""
    assert (
        score_pairs([SAME], cache_dir=tmp_path / "cache", search_path=fake_tools(tmp_path / "bin"))[0].f1
        == 1.0
    )


def test_a_killed_batch_is_repeated_without_loss(tmp_path: Path) -> None:
    """The first pdflatex run dies from outside; every formula is scored all the same."""
    once = (
        f'if [ "$1" != --version ] && mkdir {tmp_path}/once 2>/dev/null; then kill -9 $$; fi; exec $REAL "$@"'
    )
    path = fake_tools(tmp_path / "bin", pdflatex=once)
    results = score_pairs([SAME, CdmPair("x+y", "x+y")], cache_dir=tmp_path / "cache", search_path=path)
    assert [(result.f1, result.reason) for result in results] == [(1.0, None)] * 2


def test_a_killed_raster_run_is_repeated_without_loss(tmp_path: Path) -> None:
    once = (
        f'if [ "$1" != --version ] && mkdir {tmp_path}/once 2>/dev/null; then kill -9 $$; fi; exec $REAL "$@"'
    )
    path = fake_tools(tmp_path / "bin", gs=once)
    results = score_pairs([SAME, CdmPair("长", "长")], cache_dir=tmp_path / "cache", search_path=path)
    assert [(result.f1, result.reason) for result in results] == [(1.0, None)] * 2


def test_a_full_scratch_disk_is_a_reason_and_not_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("not run: no right to mount a small disk")
    try:
        monkeypatch.setattr("tempfile.tempdir", str(disk))
        known = score_pairs([CdmPair("a+b", "b+a")], cache_dir=tmp_path / "warm")
        assert known[0].reason and known[0].f1 == 0.0
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
    monkeypatch.setattr("tempfile.tempdir", None)
    again = score_pairs([CdmPair("a+b", "b+a")], cache_dir=tmp_path / "warm")
    assert (again[0].f1, again[0].reason) == (0.667, None), "the accident must not have been cached"


def test_a_corrupt_cache_entry_is_rendered_again(tmp_path: Path) -> None:
    first = score_pairs([SAME], cache_dir=tmp_path)
    for entry in tmp_path.glob("*/*.cdm"):
        entry.write_bytes(entry.read_bytes()[:-1] + b"?")
    assert score_pairs([SAME], cache_dir=tmp_path) == first


def test_a_cache_that_cannot_be_written_costs_no_score(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert score_pairs([SAME], cache_dir=tmp_path / "file")[0].f1 == 1.0


def test_two_processes_share_a_cache(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from gravbench.omnidocbench.cdm.score import CdmPair, score_pairs\n"
        "pairs = [CdmPair(f'x+{n}', f'x+{n}') for n in range(4)]\n"
        "assert [r.f1 for r in score_pairs(pairs, cache_dir=Path(sys.argv[1]))] == [1.0] * 4\n"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])}
    running = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], env=env) for _ in range(2)]
    assert [process.wait(timeout=300) for process in running] == [0, 0]
    assert score_pairs([CdmPair("x+1", "x+1")], cache_dir=tmp_path)[0].f1 == 1.0


def test_versions_are_asked_again_when_a_program_changes(tmp_path: Path) -> None:
    path = fake_tools(tmp_path / "bin", gs="echo 1")
    assert find_tools(search_path=path, memo_dir=tmp_path).gs_version == "1"
    (tmp_path / "bin" / "gs").write_text("#!/bin/sh\necho 22\n")
    assert find_tools(search_path=path, memo_dir=tmp_path).gs_version == "22"
    (tmp_path / "tools.json").write_text("{broken")
    assert find_tools(search_path=path, memo_dir=tmp_path).gs_version == "22"
