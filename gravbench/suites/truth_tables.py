"""Ground truth as people keep it -> rows: tables, folders of pairs, `datasets` folders, Parquet with images.

Reading says nothing about whether a row is usable; a row that cannot be read at all is a `Refused` one. What
a truth is of (text, table, formula) is read off it.
Parquet and Arrow files need pyarrow (`gravbench[data]`), which is imported when such a file is met.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gravbench.errors import DataError, UsageError
from gravbench.imaging import read_bounded
from gravbench.metrics.table_html import normalize_html_table
from gravbench.metrics.table_markup import RefusedMarkupError
from gravbench.records import Task
from gravbench.suites.samples import contained_path

MAX_TABLE_BYTES = 1024 * 1024 * 1024
MAX_TRUTH_BYTES = 10_000_000
IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".bmp")
TRUTH_SUFFIXES = {".txt": None, ".md": None, ".html": "table", ".htm": "table", ".tex": "formula"}
"""Endings of files with the truth of one image, and the task that an ending stands for."""
ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z", ".rar")
BATCH_ROWS = 64
_SPLIT_OF_FILE = re.compile(r"^([A-Za-z0-9_]+)-\d{5}-of-\d{5}")
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_TABLE = re.compile(r"<table[\s>]", re.IGNORECASE)
_DELIMITED = re.compile(
    r"\A\s*(\$\$.*\$\$|\\\[.*\\\]|\\\(.*\\\)|\$[^$]+\$|\\begin\{(equation|align|gather|math).*)\s*\Z",
    re.DOTALL,
)
_COMMAND = re.compile(r"\\[A-Za-z]+|[\^_]\{")
_WORDS = re.compile(r"[^\W\d_]{3,}[ ,.;:]+[^\W\d_]{2,}")
_TEXT_COMMAND = re.compile(r"\\(text|mbox|textrm|operatorname)\s*\{[^{}]*\}")


@dataclass(frozen=True, slots=True)
class Row:
    """One entry of the truth: where it stands, for messages, and its values by column."""

    where: str
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Refused:
    """An entry that could not be read, and why."""

    where: str
    what: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TruthTable:
    """Column names in their order, and the rows, read as they are asked for.

    `images` is the folder that image paths are relative to; `None` where no row has a path.
    """

    columns: tuple[str, ...]
    rows: Iterable[Row | Refused]
    images: Path | None


def read_truth(truth: Path | None, images: Path | None, *, encoding: str) -> TruthTable:
    """The table of a file by its ending, of a `datasets` folder, or of images with a text file beside each.

    `encoding` is that of text files; a byte-order mark decides for itself. `UsageError` says what is missing
    or not read here, `DataError` what is wrong with the file as a whole.
    """
    for folder in (images, truth):
        if folder is not None and not folder.exists():
            raise DataError(f"{folder}: not found", hint="Check --images and --truth.")
    if images is not None and not images.is_dir():
        raise UsageError(f"--images {images}: {_kind(images)}, expected a folder", hint=_UNPACK)
    if truth is None:
        if images is None:
            raise UsageError("nothing to read", hint="Give --images DIR, --truth FILE, or both.")
        return _pairs(images, encoding)
    if truth.is_dir():
        return _dataset(truth, images or truth, encoding)
    return _table_file(truth, images, encoding)


_UNPACK = "Archives are not opened: unpack it, then name the folder."


def _kind(path: Path) -> str:
    return "an archive" if path.suffix.lower() in ARCHIVES else "a file"


def _table_file(path: Path, images: Path | None, encoding: str) -> TruthTable:
    suffix = path.suffix.lower()
    if suffix in ARCHIVES:
        raise UsageError(f"--truth {path}: an archive, expected a table", hint=_UNPACK)
    if suffix == ".parquet":
        return TruthTable(
            columns=_parquet_columns(path), rows=_parquet_rows(path, path.name, None), images=images
        )
    readers = {".csv": _csv, ".tsv": _csv, ".jsonl": _json_lines, ".ndjson": _json_lines, ".json": _json}
    if suffix not in readers:
        raise UsageError(
            f"--truth {path}: ending {suffix or '(none)'!r}, expected one of "
            f"{', '.join([*readers, '.parquet'])} or a folder",
            hint="Rename the file as what it is, or save the table as CSV.",
        )
    text = decoded(read_bounded(path, limit=MAX_TABLE_BYTES, what="table"), str(path), encoding)
    columns, rows = readers[suffix](text, path)
    return TruthTable(columns=columns, rows=rows, images=images or path.parent)


def decoded(data: bytes, name: str, encoding: str) -> str:
    """Text of a file with LF line ends; `DataError` names the byte that is not of `encoding`."""
    if data.startswith(_UTF16):
        encoding = "utf-16"
    elif encoding.lower().replace("_", "-") in ("utf-8", "utf8"):
        encoding = "utf-8-sig"
    try:
        text = data.decode(encoding)
    except LookupError as fault:
        raise UsageError(
            f"--encoding {encoding!r}: unknown", hint="For example utf-8, cp1252, gbk or shift_jis."
        ) from fault
    except UnicodeDecodeError as fault:
        line = data[: fault.start].count(b"\n") + 1
        raise DataError(
            f"{name}: byte {fault.start} (line {line}) is 0x{data[fault.start]:02x}, expected "
            f"{encoding.removesuffix('-sig')} text",
            hint="Save it as UTF-8, or name its encoding: --encoding cp1252.",
        ) from fault
    return text.replace("\r\n", "\n").replace("\r", "\n")


Parsed = tuple[tuple[str, ...], list[Row | Refused]]


def _csv(text: str, path: Path) -> Parsed:
    """A header line, then one row a line; quoted fields may hold separators and line ends."""
    csv.field_size_limit(MAX_TRUTH_BYTES)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text, path), strict=True)
    rows: list[Row | Refused] = []
    header: list[str] = []
    try:
        header = [name.strip() for name in next(reader, [])]
        _check_header(header, path)
        end = reader.line_num
        for fields in reader:
            where, end = f"{path.name}:{end + 1}", reader.line_num
            if not fields:
                continue
            if len(fields) != len(header):
                why = f"{len(fields)} fields, expected {len(header)} as in the first line"
                rows.append(Refused(where, fields[0], why))
            else:
                rows.append(Row(where, dict(zip(header, fields, strict=True))))
    except csv.Error as fault:
        raise DataError(
            f"{path}:{reader.line_num}: {fault}",
            hint="Close the quote, or double a quote that belongs to the text.",
        ) from fault
    return tuple(header), rows


def _delimiter(text: str, path: Path) -> str:
    """Tab for .tsv; else whichever of comma, semicolon and tab the first line has most of."""
    first = text.partition("\n")[0]
    return "\t" if path.suffix.lower() == ".tsv" else max(",;\t", key=first.count)


def _check_header(header: Sequence[str], path: Path) -> None:
    twice = sorted({name for name in header if header.count(name) > 1})
    if not header or twice:
        found = f"column {twice[0]!r} twice" if twice else "an empty file"
        raise DataError(f"{path}:1: {found}, expected a first line of column names", hint="Name each once.")


def _json_lines(text: str, path: Path) -> Parsed:
    rows: list[Row | Refused] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            where = f"{path.name}:{number}"
            try:
                rows.append(_object(json.loads(line), where))
            except (ValueError, RecursionError) as fault:
                rows.append(Refused(where, line[:40], f"not JSON: {fault}"))
    return _columns_of(rows), rows


def _json(text: str, path: Path) -> Parsed:
    """A list of objects, an object that holds one such list, or an object of image name -> truth."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise DataError(f"{path}: not JSON: {fault}", hint="JSON Lines end in .jsonl.") from fault
    if isinstance(value, dict):
        lists = [entry for entry in value.values() if isinstance(entry, list)]
        if len(lists) == 1:
            value = lists[0]
        elif value and all(isinstance(entry, str) for entry in value.values()):
            value = [{"image": name, "text": entry} for name, entry in value.items()]
    if not isinstance(value, list):
        raise DataError(
            f"{path}: {type(value).__name__}, expected a list of objects, or an object of image name to text",
            hint="For example [{\"image\": \"a.png\", \"text\": \"...\"}].",
        )  # fmt: skip
    rows = [_object(entry, f"{path.name}[{index}]") for index, entry in enumerate(value)]
    return _columns_of(rows), rows


def _object(value: object, where: str) -> Row | Refused:
    if isinstance(value, dict):
        return Row(where, value)
    return Refused(where, str(value)[:40], f"{type(value).__name__}, expected an object")


def _columns_of(rows: Iterable[Row | Refused]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for row in rows if isinstance(row, Row) for name in row.values))


def _pairs(images: Path, encoding: str) -> TruthTable:
    """`NAME.png` beside `NAME.txt`, `.md`, `.html` or `.tex`, at any depth; hidden files are left alone."""
    files = sorted(
        path.relative_to(images)
        for path in images.rglob("*")
        if not any(part.startswith(".") for part in path.relative_to(images).parts) and not path.is_dir()
    )
    truths: dict[Path, list[Path]] = {}
    for path in files:
        if path.suffix.lower() in TRUTH_SUFFIXES:
            truths.setdefault(path.with_suffix(""), []).append(path)
    pictures = [path for path in files if path.suffix.lower() not in TRUTH_SUFFIXES]
    if not truths:
        raise DataError(
            f"{images}: no NAME.txt, .md, .html or .tex beside an image",
            hint="Put one beside each image, or name a table with --truth FILE.",
        )

    def rows() -> Iterator[Row | Refused]:
        for picture in pictures:
            found = truths.get(picture.with_suffix(""), [])
            if len(found) == 1:
                yield _pair(images, picture, found[0], encoding)
            elif found or picture.suffix.lower() in (*IMAGE_SUFFIXES, ".gif", ".pdf"):
                names = " and ".join(path.name for path in found) or "no text file"
                yield Refused(str(picture), picture.name, f"{names} beside it, expected one")
        for stem in sorted(set(truths) - {picture.with_suffix("") for picture in pictures}):
            for path in truths[stem]:
                yield Refused(str(path), path.name, "no image of that name beside it")

    return TruthTable(columns=("image", "text", "task"), rows=rows(), images=images)


def _pair(images: Path, picture: Path, truth: Path, encoding: str) -> Row | Refused:
    try:
        place = contained_path(images, truth.as_posix(), where=str(truth))
        text = decoded(read_bounded(place, limit=MAX_TRUTH_BYTES, what="truth"), str(truth), encoding)
    except DataError as fault:
        return Refused(str(truth), picture.name, fault.whole)
    task = TRUTH_SUFFIXES[truth.suffix.lower()]
    return Row(str(truth), {"image": picture.as_posix(), "text": text.strip("\n"), "task": task})


def _dataset(folder: Path, images: Path, encoding: str) -> TruthTable:
    """A folder written by `datasets`: `save_to_disk`, Parquet files by split, or images with metadata.*.

    Paths that take the place of images are relative to `images`.
    """
    for name in ("metadata.csv", "metadata.jsonl", "metadata.parquet"):
        if (folder / name).is_file():
            return _table_file(contained_path(folder, name, where=str(folder)), images, encoding)
    files = [
        path
        for pattern in ("*.parquet", "*.arrow")
        for path in sorted(folder.rglob(pattern))
        if not any(part.startswith(".") for part in path.relative_to(folder).parts)
    ]
    if not files:
        raise DataError(
            f"{folder}: neither Parquet or Arrow files nor metadata.csv or .jsonl in it",
            hint="Name the folder that `datasets` saved, or a table file; leave --truth out where text files "
            "lie beside the images.",
        )
    places = [
        (contained_path(folder, p.relative_to(folder).as_posix(), where=str(folder)), _split_of(p, folder), p)
        for p in files
    ]
    columns = dict.fromkeys(name for place, _, _ in places for name in _parquet_columns(place))
    split = {"split": None} if any(split for _, split, _ in places) else {}

    def rows() -> Iterator[Row | Refused]:
        for place, name, path in places:
            yield from _parquet_rows(place, path.relative_to(folder).as_posix(), name)

    return TruthTable(columns=tuple(columns | split), rows=rows(), images=images)


def _split_of(path: Path, folder: Path) -> str | None:
    """The split a file stands for: the folder that `save_to_disk` made for it, or the start of its name."""
    if (folder / "dataset_dict.json").is_file():
        return path.relative_to(folder).parts[0]
    named = _SPLIT_OF_FILE.match(path.name)
    return named[1] if named and named[1] != "data" else None


def _pyarrow(path: Path) -> Any:
    try:
        import pyarrow
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError as fault:
        raise UsageError(
            f"{path}: reading it needs pyarrow, which is not installed",
            hint="pip install 'gravbench[data]', or save the table as CSV or JSON Lines.",
        ) from fault
    return pyarrow


def _parquet_columns(path: Path) -> tuple[str, ...]:
    arrow = _pyarrow(path)
    try:
        if path.suffix == ".arrow":
            with path.open("rb") as file:
                return tuple(arrow.ipc.open_stream(file).schema.names)
        return tuple(arrow.parquet.read_schema(path).names)
    except (arrow.ArrowException, OSError) as fault:
        raise DataError(
            f"{path}: not readable as {path.suffix[1:]}: {fault}", hint="Write it anew."
        ) from fault


def _parquet_rows(path: Path, name: str, split: str | None) -> Iterator[Row]:
    """Rows of a Parquet or Arrow stream file, a few at a time; `split` fills a column the file lacks."""
    arrow = _pyarrow(path)
    number = 0
    try:
        with path.open("rb") as file:
            batches = (
                arrow.ipc.open_stream(file)
                if path.suffix == ".arrow"
                else arrow.parquet.ParquetFile(file).iter_batches(batch_size=BATCH_ROWS)
            )
            for batch in batches:
                for values in batch.to_pylist():
                    number += 1
                    yield Row(f"{name}, row {number}", ({"split": split} if split else {}) | values)
    except (arrow.ArrowException, OSError) as fault:
        raise DataError(f"{path}: row {number + 1}: {fault}", hint="Write the file anew.") from fault


def task_of_truth(text: str) -> Task:
    """`table` for HTML with a table, `formula` for LaTeX, else `text`.

    LaTeX is what stands in math delimiters, or has a command or a braced index and no two words in a row.
    """
    if _TABLE.search(text):
        return "table"
    if _DELIMITED.match(text):
        return "formula"
    bare = _COMMAND.sub(" \\ ", _TEXT_COMMAND.sub("", text))
    return "formula" if _COMMAND.search(text) and not _WORDS.search(bare) else "text"


def has_table(text: str) -> bool:
    """Whether HTML with a table is there that TEDS can read."""
    try:
        return bool(_TABLE.search(text) and normalize_html_table(text))
    except RefusedMarkupError:
        return False
