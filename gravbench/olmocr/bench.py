"""The data folder and the folders of predictions, as they lie on disk."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gravbench.errors import DataError
from gravbench.imaging import is_within
from gravbench.olmocr.page import Rules, TestRecordError
from gravbench.olmocr.records import BaselineTest, Test, read_test

BASELINE = "baseline"
"""Category of the automatic tests."""
PUBLIC_CATEGORIES = {
    "arxiv_math.jsonl": 2927,
    "baseline": 1394,
    "headers_footers.jsonl": 760,
    "long_tiny_text.jsonl": 442,
    "multi_column.jsonl": 884,
    "old_scans.jsonl": 526,
    "old_scans_math.jsonl": 458,
    "table_tests.jsonl": 1022,
}
"""Tests of the public data: only these numbers together make an official overall."""
_PREDICTION = re.compile(r"(.+)_pg(\d+)_repeat(\d+)\.md", re.DOTALL)


def baseline_last(category: str) -> tuple[bool, str]:
    """Sorts categories: files by name, then the automatic tests."""
    return category == BASELINE, category


@dataclass(frozen=True, slots=True)
class Booked:
    """A test and the category that counts it."""

    test: Test
    category: str
    row: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """The test as it stands in its file."""


@dataclass(frozen=True, slots=True)
class Bench:
    """Tests in official order: file by file, then the automatic ones; `pdfs` are names below `pdfs/`."""

    name: str
    tests: tuple[Booked, ...]
    pdfs: tuple[str, ...]
    rules: Rules
    pages_counted: bool = False
    """Whether it was checked that every page of every PDF has a test."""

    @property
    def categories(self) -> dict[str, int]:
        """Tests by category, files by name, `baseline` last."""
        counts: dict[str, int] = {}
        for booked in self.tests:
            counts[booked.category] = counts.get(booked.category, 0) + 1
        return {name: counts[name] for name in sorted(counts, key=baseline_last)}

    @property
    def label(self) -> str:
        """What a score over these tests may be called."""
        if self.categories == {**PUBLIC_CATEGORIES}:
            return "olmOCR-Bench"
        counts = self.categories
        return f"{self.name}: {len(counts)} categories, {sum(counts.values())} tests of olmOCR-Bench's kinds"


def read_tests(path: Path, rules: Rules) -> list[tuple[Test, Mapping[str, Any]]]:
    """Tests of one JSONL file and their rows; one that the official program refuses is a `DataError`."""
    tests: list[tuple[Test, Mapping[str, Any]]] = []
    seen: dict[str, int] = {}
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read: {error}", hint="Test files are JSONL in UTF-8.") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            test = read_test(row, rules)
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"{path}: line {number}: not a JSON object: {error}", hint="One object a line."
            ) from error
        except TestRecordError as error:
            raise DataError(
                f"{path}: line {number}: {error.message}",
                hint="The official program refuses such a test; correct the line or take it out.",
            ) from error
        if test.id in seen:
            raise DataError(
                f"{path}: line {number}: id {test.id!r} stands in line {seen[test.id]} too",
                hint="Ids are unique within a file.",
            )
        seen[test.id] = number
        tests.append((test, row))
    return tests


def _files_below(folder: Path, suffix: str) -> Iterator[str]:
    """Paths relative to `folder`, with `/`, of files with that ending; hidden folders are skipped."""
    for path in sorted(folder.rglob(f"*{suffix}")):
        relative = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") for part in relative.parts):
            yield relative.as_posix()


def _refuse_link_out(path: Path, folder: Path) -> None:
    """`DataError` for a file behind a link that leaves `folder`; a hub snapshot's own blobs may be linked."""
    if not is_within(path.resolve(), folder.resolve()):
        raise DataError(
            f"{path}: leads out of {folder} by a link, expected a file in it",
            hint="Copy the file there.",
        )


def read_bench(data: Path, rules: Rules) -> Bench:
    """Test files and page names of a data folder, or one test file of it."""
    folder = data.parent if data.is_file() else data
    if not folder.is_dir():
        raise DataError(
            f"{data}: no such folder", hint="Name the folder with the test files (*.jsonl) and pdfs/."
        )
    files = [data] if data.is_file() else sorted(folder.glob("*.jsonl"))
    if not files:
        raise DataError(
            f"{folder}: no test file (*.jsonl) in it", hint="Name olmOCR-Bench's folder bench_data."
        )
    if data.is_dir():  # one test file is the file that was asked for, wherever it lies
        for path in files:
            _refuse_link_out(path, folder)
    by_file = {path.name: read_tests(path, rules) for path in files}
    category = {test.id: name for name, tests in by_file.items() for test, _ in tests}
    booked = [Booked(test, category[test.id], row) for tests in by_file.values() for test, row in tests]
    if not booked:
        raise DataError(f"{data}: no test in it", hint="One JSON object a line.")
    named = sorted({each.test.pdf for each in booked})
    pdfs = list(_files_below(folder / "pdfs", ".pdf")) if (folder / "pdfs").is_dir() else named
    if data.is_file() and rules is Rules.MAIN:
        pdfs = [name for name in pdfs if name in set(named)]
    checked = {each.test.pdf for each in booked if isinstance(each.test, BaselineTest)}
    for name in sorted(set(pdfs) - checked):
        row: dict[str, Any] = {"pdf": name, "page": 1, "id": f"{name}_{BASELINE}", "type": BASELINE}
        booked.append(Booked(BaselineTest(**row), BASELINE, row))
    counted = _check_pages(folder / "pdfs", pdfs, booked)
    return Bench(
        data.stem if data.is_file() else folder.resolve().name, tuple(booked), tuple(pdfs), rules, counted
    )


def _check_pages(folder: Path, pdfs: Sequence[str], booked: Sequence[Booked]) -> bool:
    """Every page of every PDF needs a test, officially. False when no PDF library is here to count pages."""
    try:
        import pypdfium2
    except ImportError:
        return False
    tested = {(each.test.pdf, str(each.test.page)) for each in booked}
    for name in pdfs:
        path = folder / name
        if not path.is_file():
            return False
        _refuse_link_out(path, folder)
        try:
            document = pypdfium2.PdfDocument(path)
            pages = len(document)
            document.close()
        except pypdfium2.PdfiumError as error:
            raise DataError(f"{path}: not a PDF that can be read: {error}") from error
        for page in range(1, pages + 1):
            if (name, str(page)) not in tested:
                raise DataError(
                    f"{path}: page {page} has no test",
                    hint="The official program stops here; add a test of that page, or cut the page out.",
                )
    return True


@dataclass(frozen=True, slots=True)
class Candidate:
    """A folder of predictions: PDF base name -> its Markdown files, by name."""

    name: str
    folder: Path
    files: Mapping[str, tuple[str, ...]]

    def of_page(self, pdf: str, page: int | str) -> tuple[str, ...]:
        """Files of a page: those of the PDF whose own name holds `_pgN_`, as officially."""
        wanted = f"_pg{page}_"
        return tuple(name for name in self.of_pdf(pdf) if wanted in name.rsplit("/", 1)[-1])

    def of_pdf(self, pdf: str) -> tuple[str, ...]:
        return self.files.get(base_name(pdf), ())


def base_name(pdf: str) -> str:
    """A PDF's name without its last extension."""
    folder, slash, name = pdf.rpartition("/")
    stem, dot, _ = name.rpartition(".")
    return folder + slash + (stem if dot and stem else name)


def expected_file(pdf: str, page: int | str) -> str:
    """The name that a page's predictions must have."""
    return f"{base_name(pdf)}_pg{page}_repeat*.md"


def read_candidate(folder: Path) -> Candidate:
    """Prediction files by PDF. Files of other names are no predictions."""
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder", hint="Name a folder of NAME_pg1_repeat1.md files.")
    files: dict[str, list[str]] = {}
    for name in _files_below(folder, ".md"):
        match = _PREDICTION.fullmatch(name)
        if match:
            files.setdefault(match.group(1), []).append(name)
    if not files:
        raise DataError(
            f"{folder}: no prediction in it",
            hint="Files are named after their PDF: letters/a.pdf page 2 is letters/a_pg2_repeat1.md.",
        )
    return Candidate(folder.resolve().name, folder, {base: tuple(found) for base, found in files.items()})


def candidate_folders(data: Path) -> list[Path]:
    """Every folder beside `pdfs/` is a candidate, as officially."""
    found = sorted((data.parent if data.is_file() else data).iterdir())
    return [path for path in found if path.is_dir() and path.name != "pdfs" and not path.name.startswith(".")]
