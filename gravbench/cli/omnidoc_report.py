"""What the two verbs do: read, score, write, print. Edges only; the scoring is elsewhere."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console

if TYPE_CHECKING:
    from rich.progress import Progress

    from gravbench.omnidocbench.cdm.rows import Cdm
    from gravbench.omnidocbench.cdm.score import CdmResult
    from gravbench.options import ErrorLimit

from gravbench.errors import NotComparableError, UsageError
from gravbench.omnidocbench.document import build_document
from gravbench.omnidocbench.evaluation import CdmPair, evaluate
from gravbench.omnidocbench.ground_truth import chosen_pages, read_annotations, read_pages
from gravbench.omnidocbench.page_metrics import FORMULA_CDM
from gravbench.omnidocbench.page_scorer import ScorerSetup
from gravbench.omnidocbench.page_scores import rendered_signature, unavailable
from gravbench.omnidocbench.quick_match import MATCH_METHODS, QUICK_MATCH
from gravbench.omnidocbench.result_file import PageFacts, page_records, reference_digest
from gravbench.pages.regions import listed_attributes
from gravbench.scorers.contract import Note
from gravbench.store.files import make_folder
from gravbench.suites.manifest import PageSet, load_suite
from gravbench.suites.page_folder import flat_attributes, name_of_copy

LINES_FROM = 50
"""Shorter stages print no line."""


@dataclass(frozen=True, slots=True)
class ScoreOptions:
    """Ground-truth file, prediction folder, processes at most, and which pages (all by default)."""

    gt: Path
    predictions: Path
    jobs: int
    globs: Sequence[str] = ()
    where: Mapping[str, str] = field(default_factory=dict)
    match: str = QUICK_MATCH
    by: Sequence[str] = ()
    """Attributes that tables will be asked by: refused before scoring where nothing has them."""
    latex_cache: Path | None = None
    """Where LaTeX tables that were converted are kept."""


def run_scoring(
    options: ScoreOptions, *, cdm: Cdm | Callable[[], Cdm] | None = None, quiet: bool = True
) -> dict[str, Any]:
    """Score a folder. `cdm` may be a function, called only if a page has a formula.

    Progress goes to standard error, as bars on a terminal and otherwise, unless `quiet`, as lines.
    """
    annotations = chosen_pages(read_annotations(options.gt), globs=options.globs, where=options.where)
    pages = read_pages(annotations, source=str(options.gt))
    refuse_unknown_attributes(annotations, options.by)
    if callable(cdm):
        needed = any(page.owns_formula or page.formulas for page in pages)
        cdm = cdm() if needed else None
        no_formula = not needed
    else:
        no_formula = False
    with ScoringProgress(quiet=quiet) as progress:
        if cdm is not None:
            cdm.progress = progress.stage("rendering formulas")
        evaluation = evaluate(
            pages,
            options.predictions,
            setup=ScorerSetup(options.match, options.latex_cache),
            jobs=options.jobs,
            cdm_scorer=_nothing if no_formula else cdm.score if cdm and cdm.status.available else None,
            progress=progress.stage("scoring pages"),
        )
    digest = hashlib.sha256(options.gt.read_bytes()).hexdigest()
    inputs = {"gt": options.gt.name, "gt_sha256": digest, "predictions": options.predictions.name}
    document = build_document(evaluation, inputs=inputs)
    document["data"] = asdict(name_of_copy(_release(), annotations, digest, folder=options.gt.parent))
    if options.globs or options.where:
        chosen = [*options.globs, *(f"{name}={value}" for name, value in options.where.items())]
        document["inputs"]["chosen"] = chosen
    unrendered = None if evaluation.cdm_scored else Note(element="page", reason="CDM was left out")
    if cdm:
        document["cdm"] = cdm.to_record(evaluation.rows("display_formula"))
        if cdm.status.available:
            own = document["scorer"]["signatures"]
            own[FORMULA_CDM] = rendered_signature(own[FORMULA_CDM], str(cdm.status.signature))
        else:
            unrendered = unavailable(cdm)
    facts = [
        PageFacts(
            attributes=flat_attributes(entry),
            listed=tuple(sorted(listed_attributes(entry))),
            reference_sha256=reference_digest(entry),
        )
        for entry in annotations
    ]
    document["page_records"] = page_records(evaluation, facts, unrendered=unrendered)
    return document


def refuse_unknown_attributes(annotations: Sequence[Mapping[str, Any]], by: Sequence[str]) -> None:
    """`UsageError` for an attribute that no page and no element of the ground truth has."""
    known: dict[str, None] = {}
    for entry in annotations if by else ():
        for attributes in (entry["page_info"].get("page_attribute"), *_of_elements(entry)):
            known |= dict.fromkeys(attributes if isinstance(attributes, dict) else ())
    for attribute in by:
        if attribute not in known:
            raise UsageError(
                f"--by {attribute}: no page and no element has this attribute",
                hint=f"Attributes of this ground truth: {', '.join(known) or 'none'}.",
            )


def _of_elements(entry: Mapping[str, Any]) -> Iterator[Any]:
    return (block.get("attribute") for block in entry.get("layout_dets", ()))


def _nothing(pairs: Sequence[CdmPair]) -> list[CdmResult]:
    """CDM where the ground truth has no formula: no tools are needed for that."""
    assert not pairs
    return []


def _bars(console: Console) -> Progress:
    """Drawn when told, by no thread of their own: a process with one thread can be forked."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True, auto_refresh=False)


class ScoringProgress:
    """Bars with the remaining time on a terminal; elsewhere a line at every tenth, unless quiet."""

    def __init__(self, *, quiet: bool) -> None:
        console = Console(stderr=True)
        self._lines = not quiet and not console.is_terminal
        self._bars = _bars(console) if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._bars:
            self._bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bars:
            self._bars.stop()

    def stage(self, name: str) -> Callable[[int, int], None]:
        """What a stage calls with (done, in all)."""
        task, shown, begun = None, 0, 0.0

        def update(done: int, total: int) -> None:
            nonlocal task, shown, begun
            begun = begun or time.monotonic()
            if self._bars:
                task = self._bars.add_task(name, total=total) if task is None else task
                self._bars.update(task, completed=done, total=total, refresh=True)
            tenth = 10 * done // max(1, total)
            if self._lines and tenth > shown and total > LINES_FROM:
                shown = tenth
                left = (time.monotonic() - begun) / done * (total - done)
                print(f"{name}: {done} of {total}, about {left:.0f} s left", file=sys.stderr, flush=True)

        return update


def _release() -> PageSet:
    """The release whose rules are applied: what a ground-truth file is named after."""
    pages = load_suite("omnidoc16").pages
    assert pages is not None
    return pages


def parsed_where(pairs: Sequence[str]) -> dict[str, str]:
    """NAME=VALUE pairs of --where."""
    for pair in pairs:
        if "=" not in pair:
            raise UsageError(
                f"--where {pair}: expected NAME=VALUE", hint="For example --where language=english."
            )
    return {name: value for name, _, value in (pair.partition("=") for pair in pairs)}


def refuse_method(name: str) -> None:
    """`UsageError` unless it can be scored: the official `no_split` is broken in v1.6."""
    if name not in MATCH_METHODS:
        why = "it is broken in the official v1.6" if name == "no_split" else "no such method"
        raise UsageError(
            f"--match {name}: {why}, expected {' or '.join(MATCH_METHODS)}",
            hint="Use quick_match, the official default.",
        )


def refuse_pictures(folder: Path | None, *, no_cdm: bool) -> None:
    """`UsageError` where pictures of matches could not be drawn, or would lie among other files."""
    if folder is None:
        return
    if no_cdm:
        raise UsageError("--cdm-images with --no-cdm: nothing is rendered", hint="Leave out one of the two.")
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise UsageError(f"--cdm-images {folder}: not an empty folder", hint="Choose a new folder.")
    make_folder(folder)


def draw_matches(document: Mapping[str, Any], folder: Path, *, limit: int, cache_dir: Path) -> None:
    """Pictures of the worst `limit` formulas; standard error says how many, or why none."""
    from gravbench.omnidocbench.cdm.pictures import INDEX, worst_first, write_pictures

    rows = worst_first(document["rows"]["display_formula"], limit)
    if not rows:
        why = document.get("cdm", {}).get("reason", "no formula was scored")
        print(f"--cdm-images: no pictures: {why}", file=sys.stderr)
        return
    with ScoringProgress(quiet=False) as progress:
        written = write_pictures(
            rows, folder, cache_dir=cache_dir, progress=progress.stage("drawing formulas")
        )
    print(f"written: {len(written)} pictures and {INDEX} in {folder}", file=sys.stderr)


def refuse_too_many_errors(document: Mapping[str, Any], limit: ErrorLimit) -> None:
    """Exit code 3 where more pages than allowed were not scored as given."""
    lost, pages = document["pages_not_scored_as_given"], document["pages"]
    if limit.exceeded(lost, pages):
        raise NotComparableError(
            f"{lost} of {pages} pages have no readable prediction, --max-errors {limit} allows fewer",
            hint="Add the missing files, or allow more with --max-errors.",
        )


def check_places(*files: Path | None) -> None:
    """`UsageError` before any work where one of the files could not be written."""
    for file in files:
        if file is not None and (file.is_dir() or not file.parent.is_dir()):
            what = "is a folder" if file.is_dir() else f"no folder {file.parent}"
            raise UsageError(f"{file}: cannot be written: {what}", hint="Name a file in a folder there is.")
