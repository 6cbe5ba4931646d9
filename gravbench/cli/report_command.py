"""`gravbench report`: runs to a page, and a page to the published folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from urllib.parse import quote

from gravbench.analysis.loaded import LoadedRun, SampleFacts
from gravbench.analysis.results import are_results, load_results
from gravbench.analysis.run_analysis import AnalysisOptions
from gravbench.cli.output import print_json, print_tables
from gravbench.cli.run_loading import (
    ROOT,
    RefereeSetup,
    load_with_samples,
    pages_of_results,
    policy_of,
    read_forward_costs,
    refuse_result_options,
    refuse_run_options,
    set_up_referee,
    shipped_reference,
)
from gravbench.cli.verdict_verbs import Report
from gravbench.errors import DataError, UsageError, shortened
from gravbench.gate.candidate import SHOWN_PROBLEMS, judge_candidate
from gravbench.gate.reference import candidate_problems, load_reference
from gravbench.gate.verdict import GateReport
from gravbench.olmocr.renderers import find_chromium
from gravbench.reporting.builder import ReportInput, build_document
from gravbench.reporting.document import GatePart, GateRow, ReportDocument
from gravbench.reporting.gallery import SampleSource, without_pictures
from gravbench.reporting.html import render_report
from gravbench.reporting.publication import DOCUMENT, publish_report, published_folder, read_document
from gravbench.reporting.summary_page import summary_markdown, summary_picture
from gravbench.reporting.verdicts import headline
from gravbench.store.files import make_folder, write_atomic
from gravbench.store.schema import canonical_json
from gravbench.suites.data import AnySample


def gate_part(run: LoadedRun, *, reference: Path | None, setup: RefereeSetup) -> GatePart:
    """The run held against `reference`, by default the shipped one of its suite if there is one.

    A shipped reference is named without its folder, which differs from machine to machine.
    """
    suite = run.manifest.identity.suite
    folder = shipped_reference(suite) if reference is None else reference
    if reference is None and not folder.is_dir():
        return GatePart(reference=None, outcome=None)
    loaded = load_reference(folder)
    problems = candidate_problems(run, loaded, {name: policy_of(arm) for name, arm in loaded.arms.items()})
    if reference is None and problems:
        return GatePart(reference=f"{ROOT}/{suite}", outcome=None, problems=tuple(problems[:SHOWN_PROBLEMS]))
    report = judge_candidate(run, loaded, policy_of, referee=setup.referee, tau=setup.tau)
    return part_of(
        report, reference=f"{ROOT}/{suite}" if reference is None else str(reference), said=run.notes
    )


def part_of(report: GateReport, *, reference: str, said: Sequence[str] = ()) -> GatePart:
    """A gate's report as a page has it, without the notices that are `said` elsewhere."""
    return GatePart(
        reference=reference,
        outcome=report.outcome,
        rows=tuple(
            GateRow(
                status=v.status,
                arm=v.arm,
                rule=v.rule,
                observed=v.observed,
                limit=v.limit,
                explanation=v.explanation,
            )
            for v in report.verdicts
        ),
        problems=report.problems,
        notices=tuple(notice for notice in report.notices if notice not in said),
    )


def report(given: Report) -> int:
    """Write the page (and the published folder); 0 whatever it shows."""
    if given.history is not None:
        from gravbench.cli.history_command import write_history

        return write_history(given, given.history)
    if not given.runs:
        raise UsageError("report: no run given", hint="gravbench report RUN --out report.html")
    if given.out is None and given.publish is None and given.markdown is None:
        raise UsageError("nowhere to write the report", hint="gravbench report RUN --out report.html")
    document, written = write_report(
        tuple(given.runs),
        out=given.out,
        markdown=given.markdown,
        images=given.images,
        publish=given.publish,
        root=given.to,
        title=given.title,
        reference=given.reference,
        referee=given.referee,
        forward_cost=given.forward_cost,
        data=given.data,
        resamples=given.resamples,
        seed=given.seed,
        command=given.command,
    )
    _tell(document, written, as_json=given.json)
    return 0


def write_report(
    paths: tuple[Path, ...],
    *,
    out: Path | None,
    resamples: int,
    seed: int,
    markdown: Path | None = None,
    images: bool = True,
    title: str | None = None,
    publish: str | None = None,
    root: Path = Path("reports"),
    reference: Path | None = None,
    referee: str | None = None,
    forward_cost: Path | None = None,
    data: Path | None = None,
    arms: Sequence[tuple[str, str]] | None = None,
    command: str = "",
) -> tuple[ReportDocument, list[Path]]:
    """The document, and the files written of it: the page `out`, or what `publish` puts under `root`.

    `arms` pairs strategies of two runs by hand, by default equal ones are. A published folder, alone, is
    rendered again from its document.
    """
    for option, place, example in (("--out", out, "report.html"), ("--markdown", markdown, "pr.md")):
        if place is not None and place.is_dir():
            raise UsageError(f"{place}: is a folder, expected a file", hint=f"{option} {place / example}")
    costs = read_forward_costs(forward_cost)
    options = AnalysisOptions(seed=seed, resamples=resamples, forward_costs=costs)
    stored = paths[0] / DOCUMENT if len(paths) == 1 else None
    if stored is not None and stored.is_file():
        made = {"--title": title, "--reference": reference, "--referee": referee, "--data": data}
        refused = next((name for name, value in made.items() if value is not None), None)
        if refused is not None or not images:
            what = f"{paths[0]} is published: it is rendered again as it was made"
            raise UsageError(what, hint=f"Leave {refused or '--no-images'} out.")
        return _written(read_document(stored), out=out, markdown=markdown, publish=publish, root=root)
    if are_results(paths):
        refuse_run_options(paths, referee=referee, arms=None, forward_cost=forward_cost)
        inputs = [_input_of_results(paths, options, data=data, reference=reference)]
    else:
        refuse_result_options(data=data)
        inputs = _inputs_of_runs(paths, options, referee=referee, reference=reference)
    if not images:
        inputs = [replace(given, sources=without_pictures(given.sources)) for given in inputs]
    document = build_document(inputs, title=title, commands=(command,) if command else (), arms=arms)
    return _written(document, out=out, markdown=markdown, publish=publish, root=root)


def _written(
    document: ReportDocument, *, out: Path | None, markdown: Path | None, publish: str | None, root: Path
) -> tuple[ReportDocument, list[Path]]:
    written: list[Path] = []
    if publish is not None:
        folder = published_folder(document, publish)
        written += publish_report(
            document, root=root, folder=folder, working=Path.cwd(), browser=find_chromium()
        )
    if out is not None:
        make_folder(out.parent)
        write_atomic(out, render_report(document).encode("utf-8"))
        written.append(out)
    if markdown is not None:
        written += _write_summary(document, markdown)
    return document, written


def _write_summary(document: ReportDocument, markdown: Path) -> list[Path]:
    """The Markdown, and beside it the picture under the same name."""
    drawn, place = summary_picture(document), markdown.with_suffix(".svg")
    make_folder(markdown.parent)
    text = summary_markdown(document, picture=None if drawn is None else quote(place.name))
    write_atomic(markdown, text.encode("utf-8"))
    if drawn is None:
        return [markdown]
    write_atomic(place, drawn.encode("utf-8"))
    return [markdown, place]


def _inputs_of_runs(
    paths: tuple[Path, ...], options: AnalysisOptions, *, referee: str | None, reference: Path | None
) -> list[ReportInput]:
    inputs: list[ReportInput] = []
    with TemporaryDirectory(prefix="gravbench-crops-") as crops:
        for path, name in zip(paths, names_of(paths), strict=True):
            run, samples = load_with_samples(path)
            run, words = _with_words(run)
            setup = set_up_referee(referee, run, crops=Path(mkdtemp(dir=crops)))
            inputs.append(
                ReportInput(
                    run=run,
                    name=name,
                    options=replace(options, referee=setup.referee, tau=setup.tau),
                    sources=_sources(samples, run.facts),
                    pieces=words,
                    gate=gate_part(run, reference=reference, setup=setup),
                )
            )
    return inputs


def _input_of_results(
    paths: tuple[Path, ...], options: AnalysisOptions, *, data: Path | None, reference: Path | None
) -> ReportInput:
    """Results of `gravbench omnidoc` as the arms of one run, with pictures and truth out of `data`."""
    run = load_results(paths).run
    return ReportInput(
        run=run,
        name=run.name,
        options=options,
        sources=_sources(pages_of_results(run, data), run.facts),
        gate=gate_part(run, reference=reference, setup=RefereeSetup()),
    )


def names_of(paths: tuple[Path, ...]) -> list[str]:
    """Folder names; numbered where two are equal."""
    names = [path.resolve().name for path in paths]
    seen = Counter(names)
    return [
        name if seen[name] == 1 else f"{name} ({sum(n == name for n in names[: i + 1])})"
        for i, name in enumerate(names)
    ]


def _tell(document: ReportDocument, written: list[Path], *, as_json: bool) -> None:
    if as_json:
        files = [{"path": str(path), "bytes": path.stat().st_size} for path in written]
        cautions = [c for run in document.runs for c in run.cautions]
        value = {
            "schema": "gravbench.report-files/1",
            "files": files,
            "claim": headline(document),
            "cautions": cautions,
        }
        print_json(canonical_json(value))
        return
    from rich.text import Text

    lines = [Text(headline(document), style="bold")]
    lines += [Text(f"caution: {c}", style="yellow") for run in document.runs for c in run.cautions]
    lines += [Text(f"written: {path} ({path.stat().st_size:,} bytes)") for path in written]
    print_tables(*lines)


def _sources(samples: Sequence[AnySample], facts: Mapping[str, SampleFacts]) -> dict[str, SampleSource]:
    """Images and ground truth by sample id."""
    return {
        sample.sample_id: SampleSource(
            image_path=sample.image_path,
            reference=sample.content,
            categories=facts[sample.sample_id].categories,
            annotated=sample.annotated,
        )
        for sample in samples
    }


def _with_words(run: LoadedRun) -> tuple[LoadedRun, dict[int, str]]:
    """Text of every token id in the run, from its own checkpoint; where that is not at hand, no text and
    a note of the run that says why.

    The checkpoint counts only if its digest is the one the run recorded.
    """
    from gravbench.backends.glm.checkpoint import read_checkpoint
    from gravbench.runner.engine import checkpoint_of

    if run.manifest.identity.backend_name != "transformers":
        return run, {}
    try:
        folder = checkpoint_of(str(run.manifest.model.get("model")))
        if folder is None or read_checkpoint(folder).digest() != run.manifest.identity.model_digest:
            raise DataError(f"{folder} is another checkpoint than the run's")
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception as error:  # a tokenizer that is gone or broken takes the words, nothing else
        lost = f"tokens are shown by number, not in words: {shortened(str(error), 200)}"
        return replace(run, notes=(*run.notes, lost)), {}
    used = {i for unit in run.units for record in unit.records.values() for i in record.token_ids}
    return run, {i: tokenizer.decode([i], skip_special_tokens=False) for i in sorted(used)}
