"""A whole benchmark run: prediction files, pages scored side by side, results in page order for any jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gravbench.errors import DataError
from gravbench.metrics.edit_distance import nearest_name
from gravbench.omnidocbench.formula_text import cdm_spelling
from gravbench.omnidocbench.ground_truth import Page
from gravbench.omnidocbench.lines import Row
from gravbench.omnidocbench.page_scorer import QUICK, PageResult, PageScorer, ScorerSetup
from gravbench.omnidocbench.quick_match import QUICK_MATCH
from gravbench.processes import side_by_side

if TYPE_CHECKING:
    from gravbench.omnidocbench.cdm.score import CdmResult

MAX_PREDICTION_BYTES = 32 * 1024 * 1024
"""Of one Markdown file: a thousand times a dense page."""
MAX_NAME_PAIRS = 2_000_000
PAGES_PER_TASK = 8
PAGES_PER_JOB = 24
"""A further process is started for every so many pages; below that starting it costs more than it saves."""

CdmPair = tuple[str, str, str | None]
"""Ground truth, prediction, second spelling of the prediction; delimiters and tags removed."""
Progress = Callable[[int, int], None]
"""Called with (pages done, pages in all)."""


CdmScorer = Callable[[Sequence[CdmPair]], "Sequence[CdmResult]"]
"""Scores formula pairs in order; of a pair with a second spelling the better F1 counts."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Scored pages with what they were scored from."""

    pages: tuple[Page, ...]
    results: tuple[PageResult, ...]
    without_prediction: tuple[str, ...]
    cdm_scored: bool
    match: str = QUICK_MATCH
    files: FoundFiles = field(default_factory=lambda: FoundFiles(()))
    outcomes: Mapping[int, CdmResult] = field(default_factory=dict)
    """CDM of the formula rows that have a reason, by `id` of the row."""

    @property
    def unscored(self) -> tuple[str, ...]:
        """Pages that count as empty for want of a readable prediction, or by an error of this scorer."""
        broken = {r.image for r in self.results if r.internal_error or r.unreadable}
        missing = set(self.without_prediction)
        return tuple(page.image for page in self.pages if page.image in broken | missing)

    def rows(self, element: str) -> list[Row]:
        """Rows of `text_block`, `display_formula` or `table`, in page order."""
        if element == "display_formula":
            return [row for result in self.results for row in result.formulas]
        if element == "table":
            return [row for result in self.results for row in result.tables]
        text = [row for result in self.results for row in result.text]
        return text + [row for result in self.results for row in result.text_from_formulas]


@dataclass(frozen=True, slots=True)
class _Work:
    """Pages and their files; a worker process is given all of it once, and then numbers of pages."""

    setup: ScorerSetup
    pages: Sequence[Page]
    files: Sequence[Path | None]

    def score(self, part: slice) -> list[PageResult]:
        """Results of some pages. The memory of a scorer is as long as a part: texts rarely come again."""
        scorer = PageScorer(self.setup)
        scored: list[PageResult] = []
        for page, file in zip(self.pages[part], self.files[part], strict=True):
            prediction = read_prediction(file)
            result = scorer.score(page, prediction.markdown, crash=prediction.crash)
            trees = _formula_trees(result.formulas)
            scored.append(replace(result, unreadable=prediction.crash is not None, formula_trees=trees))
        return scored


def _formula_trees(rows: Sequence[Row]) -> tuple[float | None, ...]:
    if not rows:
        return ()
    from gravbench.metrics.formula_tree import formula_tree_score  # loads what pages without formulas spare

    return tuple(formula_tree_score(row.gt, row.pred).value for row in rows)


def _tasks(count: int) -> list[slice]:
    return [slice(start, min(count, start + PAGES_PER_TASK)) for start in range(0, count, PAGES_PER_TASK)]


def score_pages(
    pages: Sequence[Page],
    files: Sequence[Path | None],
    *,
    jobs: int,
    setup: ScorerSetup = QUICK,
    progress: Progress | None = None,
) -> list[PageResult]:
    """Results in page order. Jobs are processes; the results do not depend on their number."""
    scored = 0

    def done(part: slice) -> None:
        nonlocal scored
        scored += part.stop - part.start
        if progress:
            progress(scored, len(pages))

    work = _Work(setup, pages, files).score
    jobs = max(1, min(jobs, len(pages) // PAGES_PER_JOB))
    parts = side_by_side(work, _tasks(len(pages)), jobs=jobs, done=done)
    return [result for part in parts for result in part]


def add_cdm(rows: Sequence[Row], cdm_scorer: CdmScorer) -> Sequence[CdmResult]:
    """Score formula rows by CDM; rows then show the spellings that were compared, as officially."""
    pairs: list[CdmPair] = []
    for row in rows:
        alternative = row.cdm.get("pred_cdm_alt")
        row.cdm["gt_cdm"] = cdm_spelling(row.cdm.get("gt_cdm", row.gt))
        row.cdm["pred_cdm"] = cdm_spelling(row.cdm.get("pred_cdm", row.pred), fenced=True)
        if alternative:
            row.cdm["pred_cdm_alt"] = cdm_spelling(alternative, fenced=True)
        pairs.append((row.cdm["gt_cdm"], row.cdm["pred_cdm"], row.cdm.get("pred_cdm_alt")))
    results = cdm_scorer(pairs)
    for row, outcome in zip(rows, results, strict=True):
        row.metric["CDM"] = outcome.f1
    return results


def evaluate(
    pages: Sequence[Page],
    predictions: Path,
    *,
    jobs: int = 1,
    setup: ScorerSetup = QUICK,
    cdm_scorer: CdmScorer | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Score a folder of predictions. Without `cdm_scorer` there is no CDM and so no Overall."""
    found = find_predictions(predictions, pages)
    files = list(found.paths)
    results = score_pages(pages, files, jobs=jobs, setup=setup, progress=progress)
    outcomes: dict[int, CdmResult] = {}
    if cdm_scorer:
        rows = [row for result in results for row in result.formulas]
        scored = add_cdm(rows, cdm_scorer)
        outcomes = {id(row): result for row, result in zip(rows, scored, strict=True) if result.reason}
    missing = tuple(page.image for page, file in zip(pages, files, strict=True) if file is None)
    scored_cdm = cdm_scorer is not None
    return Evaluation(tuple(pages), tuple(results), missing, scored_cdm, setup.match, found, outcomes)


@dataclass(frozen=True, slots=True)
class Prediction:
    """A page's Markdown; None without a file. `crash`: why the official scorer cannot read the file."""

    markdown: str | None
    crash: str | None = None


def names_tried(image: str) -> tuple[str, ...]:
    """File names for a page image, in order. The extension is taken to be three letters long (quirk)."""
    stem = image[:-4]
    short = stem.replace(".pdf", "")
    return tuple(dict.fromkeys((f"{stem}.md", f"{short}.mmd", f"{short}.md", f"{image}.md")))


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """File of each page (None: none), files that belong to no page, and what may have been meant."""

    paths: tuple[Path | None, ...]
    unused: tuple[str, ...] = ()
    """Below the prediction folder, by name."""
    nearest: Mapping[str, str] = field(default_factory=dict)
    """Page without a prediction -> the unused file with the most similar name, where one is similar."""


def find_predictions(folder: Path, pages: Sequence[Page]) -> FoundFiles:
    """Files of `locate`, with names for those who look for what is missing."""
    paths = locate(folder, pages)
    used = {path for path in paths if path is not None}
    there = sorted(path for path in folder.rglob("*") if path.is_file() and path not in used)
    unused = tuple(str(path.relative_to(folder)) for path in there)
    missing = [page.image for page, path in zip(pages, paths, strict=True) if path is None]
    nearest: dict[str, str] = {}
    if len(missing) * len(unused) <= MAX_NAME_PAIRS:
        stems = [Path(name).stem for name in unused]
        for image in missing:
            meant = nearest_name(names_tried(image)[0].removesuffix(".md"), stems)
            if meant is not None:
                nearest[image] = unused[meant]
    return FoundFiles(tuple(paths), unused, nearest)


def locate(folder: Path, pages: Sequence[Page]) -> list[Path | None]:
    """File of each page, None where there is none. A folder that answers no page at all is a data fault."""
    if not folder.is_dir():
        kind = "not a folder" if folder.exists() else "no such folder"
        raise DataError(
            f"{folder}: {kind}",
            hint="--predictions names a folder with one Markdown file for each page image.",
        )
    present = {path.name for path in folder.iterdir() if path.is_file()}
    if not present:
        raise DataError(
            f"{folder}: the folder holds no files",
            hint=f"For page image {pages[0].image} put {names_tried(pages[0].image)[0]} there.",
        )
    found = [next((name for name in names_tried(page.image) if name in present), None) for page in pages]
    if not any(found):
        tried = "; ".join(", ".join(names_tried(page.image)) for page in pages[:3])
        seen = ", ".join(sorted(present)[:3])
        raise DataError(
            f"{folder}: none of its {len(present)} files belongs to one of the {len(pages)} pages; looked "
            f"for {tried}{' ...' if len(pages) > 3 else ''}; found {seen}",
            hint="Name each file after its page image: page_1.png -> page_1.md.",
        )
    return [None if name is None else folder / name for name in found]


def read_prediction(path: Path | None) -> Prediction:
    """The file's text with line ends as newlines; what is not UTF-8 would crash the official scorer."""
    if path is None:
        return Prediction(None)
    try:
        size = path.stat().st_size
        if size > MAX_PREDICTION_BYTES:
            limit = f"expected at most {MAX_PREDICTION_BYTES:,}"
            return Prediction(None, f"its file has {size:,} bytes, {limit}; it was not read")
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        return Prediction(
            None, f"the official scorer fails on its bytes: not UTF-8: {error.reason} at byte {error.start}"
        )
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    return Prediction(text.replace("\r\n", "\n").replace("\r", "\n"))
