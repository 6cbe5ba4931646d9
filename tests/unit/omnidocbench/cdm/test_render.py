"""Batched rendering against the one-at-a-time official path, and hostile formulas among good ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from cdm_support import engine, raw_source, source_of
from oracles import formulas, official_cdm
from system_packages import needs_imagemagick, needs_tex

from gravbench.omnidocbench.cdm.render import Rendering, Source, render
from gravbench.omnidocbench.cdm.tools import Limits

pytestmark = needs_tex

GOOD = [r"\frac{a}{b}", r"x^{2}+y_{i}", r"\sum_{i=1}^{n} i", "面积=长", r"\left( x \right)"]
QUICK = Limits(solo_cpu_s=1, batch_cpu_s=1)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> list[Rendering]:
    """The good formulas with nobody else around."""
    scratch = tmp_path_factory.mktemp("alone")
    return render([source_of(formula) for formula in GOOD], engine=engine(), scratch=scratch)


def render_among_good(
    hostile: list[Source], scratch: Path, limits: Limits = QUICK
) -> tuple[list[Rendering], list[Rendering]]:
    """Good and hostile formulas in turn; results of the good ones, then of the hostile ones."""
    good = [source_of(formula) for formula in GOOD]
    mixed: list[Source] = []
    for index in range(max(len(good), len(hostile))):
        mixed += hostile[index : index + 1] + good[index : index + 1]
    found = dict(zip(mixed, render(mixed, engine=engine(limits), scratch=scratch), strict=True))
    return [found[source] for source in good], [found[source] for source in hostile]


@needs_imagemagick
@pytest.mark.parametrize(
    "formula",
    [
        formulas.PLAIN[9],
        formulas.CHINESE[1],
        formulas.WIDE[0],
        formulas.TALL[0],
        formulas.TABLES[0],
        formulas.BROKEN[2],
    ],
    ids=["cases", "chinese", "too wide for A5", "two pages", "table", "error"],
)
def test_boxes_are_those_of_the_official_path(formula: str, tmp_path: Path) -> None:
    (tmp_path / "official").mkdir()
    (tmp_path / "ours").mkdir()
    source = source_of(formula)
    slow = official_cdm.render(
        source.body,
        source.template,
        tokens=source.tokens,
        colours=source.colours,
        folder=tmp_path / "official",
    )
    if slow is None:
        pytest.skip("not run: ImageMagick's policy file does not let it read PDF")
    found = render([source], engine=engine(), scratch=tmp_path / "ours")[0]
    assert found.boxes is not None
    assert (found.boxes.width, found.boxes.height) == slow.size
    assert [list(box) if box else [] for box in found.boxes.boxes] == slow.boxes


@pytest.mark.parametrize(
    "bodies",
    [
        [r"\frac{a", r"a}", r"\left( x", r"$ x $", r"\begin{array}{l} x", r"\end{array}"],
        [r"\end{document}", r"\csname end\endcsname", r"\undefined" * 130],
        [r"\gdef\alpha{Z}", r"\global\everymath{\bf}", r"\catcode`\$=12 x", r"\count0=77 x", r"\clearpage x"],
        [r"\begin{equation}x\end{equation}", r"\footnote{x}", r"\global\hsize=3cm x"],
    ],
    ids=["open groups", "ends and errors", "changed state", "counters"],
)  # fmt: skip
def test_good_formulas_keep_their_boxes_next_to_bad_ones(
    bodies: list[str], tmp_path: Path, alone: list[Rendering]
) -> None:
    good, _ = render_among_good([raw_source(body) for body in bodies], tmp_path)
    assert [rendering.boxes for rendering in good] == [rendering.boxes for rendering in alone]
    assert list(tmp_path.iterdir()) == [], "scratch folders are removed"


def test_an_endless_loop_is_stopped_and_named(tmp_path: Path, alone: list[Rendering]) -> None:
    """One that is known to be dangerous, and one that hides from the list behind its own batch."""
    loops = [raw_source(r"\def\a{\a}\a"), raw_source(r"\expandafter\def\expandafter\a{x\a}\a")]
    good, bad = render_among_good(loops, tmp_path)
    assert [rendering.boxes for rendering in good] == [rendering.boxes for rendering in alone]
    for rendering in bad:
        assert rendering.boxes is None
        assert rendering.problem
    assert bad[0].limit == "CPU limit"
    assert not bad[0].lasting


def test_a_loop_inside_a_batch_costs_only_itself(
    tmp_path: Path, alone: list[Rendering], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the list of dangerous words, the batch is killed, and repeated without the culprit."""
    monkeypatch.setattr("gravbench.omnidocbench.cdm.render.must_run_alone", lambda _: False)
    good, bad = render_among_good([raw_source(r"\def\a{\a}\a")], tmp_path)
    assert [rendering.boxes for rendering in good] == [rendering.boxes for rendering in alone]
    assert bad[0].limit == "CPU limit" and bad[0].alone


def test_output_without_end_is_stopped(tmp_path: Path) -> None:
    small = Limits(solo_cpu_s=20, file_bytes=300_000)
    endless = raw_source(
        r"\def\a{\immediate\write16{xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx}\a}\a"
    )
    found = render([endless], engine=engine(small), scratch=tmp_path)[0]
    assert found.boxes is None
    assert found.limit == "file size limit"


def test_memory_without_end_is_stopped(tmp_path: Path) -> None:
    greedy = raw_source(r"\def\a{xxxxxxxx}\loop\edef\a{\a\a}\iftrue\repeat")
    found = render([greedy], engine=engine(), scratch=tmp_path)[0]
    assert found.boxes is None
    assert found.problem


SECRET = "gravbench-secret-7261"


def test_nothing_outside_the_scratch_folder_is_read_written_or_run(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.tex").write_text(f"{SECRET} xxxxxxxx")
    before = sorted(outside.iterdir())
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    attempts = [
        rf"\input{{{outside}/secret.tex}}",
        r"\input{../../../outside/secret.tex}",
        rf"\newread\r\openin\r={outside}/secret.tex \read\r to\x \x",
        rf"\immediate\write18{{touch {outside}/run}}",
        rf"\input{{|\"touch {outside}/run\"}}",
        rf"\newwrite\w\immediate\openout\w={outside}/written.tex \immediate\write\w{{x}}",
        r"\newwrite\w\immediate\openout\w=../../../outside/written.tex \immediate\write\w{x}",
        rf"\immediate\openout15={outside}/written.tex \immediate\write15{{x}}",
        rf"\pdffiledump length 40 {{{outside}/secret.tex}}",
        rf"\special{{ps: ({outside}/written.tex) (w) file}}",
    ]
    found = render([raw_source(body) for body in attempts], engine=engine(QUICK), scratch=scratch)
    assert len(found) == len(attempts)
    assert sorted(outside.iterdir()) == before
    assert list(scratch.iterdir()) == []


def test_a_secret_file_never_becomes_ink(tmp_path: Path) -> None:
    """Reading the file would draw a wide line; refused, the formula draws no more than its neighbour."""
    (tmp_path / "secret.tex").write_text("x" * 200)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    plain, reading = render(
        [raw_source("x"), raw_source(rf"x\input {tmp_path}/secret.tex ")],
        engine=engine(QUICK),
        scratch=scratch,
    )
    assert plain.boxes is not None
    assert reading.boxes is None or reading.boxes.width <= 2 * plain.boxes.width


def test_a_batch_nobody_can_be_blamed_for_is_halved(tmp_path: Path, alone: list[Rendering]) -> None:
    """A batch run that dies before it opens a formula says nothing about who did it."""
    script = tmp_path / "pdflatex"
    real = engine().pdflatex
    script.write_text(
        f'#!/bin/sh\nif [ "$3" = batch.tex ] && [ -e f2.tex ]; then exit 1; fi\nexec {real} "$@"\n'
    )
    script.chmod(0o755)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    halving = type(engine())(script, engine().gs, Limits())
    found = render([source_of(formula) for formula in GOOD], engine=halving, scratch=scratch)
    assert [rendering.boxes for rendering in found] == [rendering.boxes for rendering in alone]
