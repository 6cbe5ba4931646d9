"""A suite of one's own crops: rows of ground truth, each checked with its image, become a manifest and data.

What cannot be used is left out and named with its line and the reason; nothing is repaired in silence.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from gravbench.errors import DataError, UsageError, has_controls, printable, shortened
from gravbench.imaging import bytes_digest, decode_image, read_bounded
from gravbench.records import TASKS, SampleTask, Task
from gravbench.scorers.contract import open_scorer
from gravbench.store.files import disk_error, make_folder, refuse_file, write_atomic
from gravbench.suites.manifest import is_suite
from gravbench.suites.page_crops import reference_of_formula
from gravbench.suites.samples import Annotation, contained_path
from gravbench.suites.truth_tables import MAX_TRUTH_BYTES, Refused, Row, TruthTable, has_table, task_of_truth

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")

COLUMN_NAMES: dict[str, tuple[str, ...]] = {
    "image": ("image", "file", "file_name", "filename", "path", "image_path"),
    "text": ("text", "gt", "truth", "reference", "ground_truth", "label", "transcription", "markdown"),
    "task": ("task", "kind", "type"),
    "split": ("split",),
    "id": ("id", "sample_id"),
}
"""What columns are called, first match wins, where `--columns` does not say."""

TASK_NAMES: dict[str, Task] = {
    "text": "text",
    "table": "table",
    "html": "table",
    "formula": "formula",
    "equation": "formula",
    "math": "formula",
    "latex": "formula",
}
PROMPTS: dict[Task, str] = {
    "text": "Text Recognition:",
    "table": "Table Recognition:",
    "formula": "Formula Recognition:",
}
"""The model family's own."""
BUDGETS: dict[Task, int] = {"text": 512, "table": 4096, "formula": 4096}
"""Those of the crops of OmniDocBench: no truth there is longer."""

MAX_ATTRIBUTE = 200
"""Characters of an attribute's value; a column with a longer one is no attribute."""
LEFT_OUT = "left_out.jsonl"

_FORMATS = ((b"\x89PNG", ".png"), (b"\xff\xd8", ".jpg"), (b"RIFF", ".webp"), (b"BM", ".bmp"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """What a suite is made with; what is not given here is inferred, and said."""

    name: str
    out: Path
    columns: Mapping[str, str] = field(default_factory=dict)
    prompts: Mapping[Task, str] = field(default_factory=dict)
    budgets: Mapping[Task, int] = field(default_factory=dict)
    scorer: str = "crops"
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """One entry that is not in the suite."""

    where: str
    what: str
    why: str

    @property
    def line(self) -> str:
        why = self.why.removeprefix(f"{self.what}: ")
        return printable(": ".join(dict.fromkeys((self.where, self.what, why))))


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeSuite:
    """What was made, and of what."""

    manifest: Path
    tasks: Mapping[SampleTask, int]
    inferred: Mapping[Task, int]
    """Samples whose task was read off their truth."""
    columns: Mapping[str, str]
    attributes: tuple[str, ...]
    ignored_columns: Mapping[str, str]
    """Columns that are no attributes, and why."""
    undelimited: int
    """Formulas whose `$$` or `\\[` were taken off, since models answer bare LaTeX."""
    left_out: tuple[LeftOut, ...]
    blocks: Mapping[str, int] = field(default_factory=dict)
    """Of pages: pieces of their truth by category."""

    @property
    def samples(self) -> int:
        return sum(self.tasks.values())


def named_columns(columns: Sequence[str], given: Mapping[str, str]) -> dict[str, str]:
    """Role -> column, by `given`, else by the usual names; `UsageError` where image or text has none."""
    unknown = [role for role in given if role not in COLUMN_NAMES]
    if unknown:
        raise UsageError(
            f"--columns: {unknown[0]!r}, expected {', '.join(COLUMN_NAMES)}",
            hint="For example --columns image=file,text=gt,task=kind.",
        )
    lower = {name.strip().lower(): name for name in reversed(columns)}
    found: dict[str, str] = {}
    for role, usual in COLUMN_NAMES.items():
        name = given.get(role) or next((lower[name] for name in usual if name in lower), None)
        if name in columns:
            found[role] = str(name)
        elif role in given or role in ("image", "text"):
            wanted = repr(given[role]) if role in given else f"one of {', '.join(usual)}"
            raise UsageError(
                f"--columns: no column for {role}: expected {wanted}, the truth has "
                f"{printable(', '.join(columns)) or 'no columns'}",
                hint=f"Name it: --columns {role}=COLUMN.",
            )
    return found


@dataclass(frozen=True, slots=True)
class _Truth:
    text: str
    task: Task
    inferred: bool
    undelimited: bool = False


class _Writer:
    """Checks one row after the other and keeps what is sound."""

    def __init__(self, table: TruthTable, columns: Mapping[str, str], folder: Path) -> None:
        self.images, self.columns, self.folder = table.images, columns, folder
        self.samples: list[Annotation] = []
        self.left_out: list[LeftOut] = []
        self.inferred: Counter[Task] = Counter()
        self.undelimited = 0
        self.ignored: dict[str, str] = {}
        self._ids: set[str] = set()
        self._seen: dict[tuple[str, Task], str] = {}

    def add(self, row: Row | Refused) -> None:
        if isinstance(row, Refused):
            self.left_out.append(LeftOut(where=row.where, what=shortened(row.what, 80), why=row.why))
            return
        try:
            self._add(row)
        except DataError as fault:
            what = shortened(_name_of(self._value(row, "image")) or "(no image)", 80)
            self.left_out.append(LeftOut(where=row.where, what=what, why=fault.whole))

    def _value(self, row: Row, role: str) -> Any:
        return row.values.get(self.columns[role]) if role in self.columns else None

    def _add(self, row: Row) -> None:
        name, data, identity = self._image(row)
        truth = self._truth(row)
        decode_image(data, name)
        task = truth.task
        before = self._seen.setdefault((identity, task), row.where)
        if before != row.where:
            raise DataError(f"the same image and task as {before}", hint="Keep one of the two.")
        self.inferred[task] += truth.inferred
        self.undelimited += truth.undelimited
        sample_id = self._id(row, name, task)
        place = f"images/{sample_id}{_suffix(name, data)}"
        (self.folder / place).write_bytes(data)
        self.samples.append(
            Annotation(
                sample_id=sample_id,
                task=task,
                image=place,
                image_sha256=bytes_digest(data),
                reference=truth.text,
                attributes=self._attributes(row),
            )
        )

    def _image(self, row: Row) -> tuple[str, bytes, str]:
        """Name and bytes of the row's image, and what tells it from others."""
        value = self._value(row, "image")
        if isinstance(value, Mapping) and isinstance(value.get("bytes"), bytes):
            data = value["bytes"]
            return str(value.get("path") or row.where), data, bytes_digest(data)
        if isinstance(value, bytes):
            return row.where, value, bytes_digest(value)
        path = value.get("path") if isinstance(value, Mapping) else value
        if not isinstance(path, str) or not path.strip():
            raise DataError("no image named", hint=f"Fill the column {self.columns['image']!r}.")
        if self.images is None:
            raise DataError(f"{path!r}: no folder to find it in", hint="Name it with --images DIR.")
        place = contained_path(self.images, path.strip(), where=f"column {self.columns['image']}")
        if not place.is_file():
            raise DataError(f"not found in {self.images}", hint="Correct the path, or name --images DIR.")
        return path.strip(), read_bounded(place), str(place)

    def _truth(self, row: Row) -> _Truth:
        value = self._value(row, "text")
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str) or not value.strip():
            found = "an empty truth" if value is None or isinstance(value, str) else type(value).__name__
            raise DataError(f"{found}, expected text", hint=f"Fill the column {self.columns['text']!r}.")
        if len(value) > MAX_TRUTH_BYTES:
            raise DataError(f"truth of {len(value):,} characters, expected at most {MAX_TRUTH_BYTES:,}")
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as fault:
            raise DataError(f"truth: half a surrogate pair at character {fault.start}") from fault
        return self._with_task(row, value.replace("\r\n", "\n"))

    def _with_task(self, row: Row, text: str) -> _Truth:
        given = self._value(row, "task")
        named = "" if given is None else str(given).strip().lower()
        if named and named not in TASK_NAMES:
            raise DataError(f"task {named!r}, expected {', '.join(TASKS)}", hint="Correct the task column.")
        task = TASK_NAMES[named] if named else task_of_truth(text)
        if task == "table" and not has_table(text):
            raise DataError("task table, but its truth holds no HTML table", hint="Write <table>...</table>.")
        if task == "formula":
            bare = reference_of_formula(text)
            if not bare:
                raise DataError("an empty formula between its delimiters", hint="Write the LaTeX.")
            return _Truth(bare, task, inferred=not named, undelimited=bare != text.strip())
        return _Truth(text, task, inferred=not named)

    def _id(self, row: Row, name: str, task: Task) -> str:
        """The row's own id, else one of the image's path; other letters than A-Z become a digest."""
        given = self._value(row, "id")
        text = str(given).strip() if given is not None else ""
        path = text or str(PurePosixPath(name).with_suffix(""))
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", path).strip("-._")[:90]
        digest = bytes_digest(path.encode("utf-8", "backslashreplace"))[:8]
        base = plain if path.isascii() and plain else f"{plain or 'crop'}-{digest}"
        tries = [base, f"{base}-{digest}", f"{base}-{task}", f"{base}-{digest}-{task}"]
        tries += [f"{base}-{number}" for number in range(2, len(self._ids) + 3)]
        chosen = next(one for one in tries if one.lower() not in self._ids)
        self._ids.add(chosen.lower())
        return chosen

    def _attributes(self, row: Row) -> dict[str, bool | int | str]:
        own = {self.columns[role] for role in ("image", "text", "task", "id") if role in self.columns}
        found: dict[str, bool | int | str] = {}
        for column, value in row.values.items():
            if column in own or value is None or value == "":
                continue
            key = "split" if column == self.columns.get("split") else printable(str(column))
            if isinstance(value, float):
                value = str(int(value)) if value.is_integer() else repr(value)
            if key == "task":
                self.ignored[key] = "its name is taken"
            elif not isinstance(value, bool | int | str):
                self.ignored[key] = f"holds a {type(value).__name__}"
            elif isinstance(value, str) and (len(value) > MAX_ATTRIBUTE or has_controls(value)):
                self.ignored[key] = f"holds text of several lines or more than {MAX_ATTRIBUTE} characters"
            else:
                found[key] = printable(value) if isinstance(value, str) else value
        return found


def make_suite(table: TruthTable, making: Making) -> MadeSuite:
    """Write `OUT/NAME.toml`, `OUT/data/` and, where entries were left out, `OUT/left_out.jsonl`.

    `OUT` must be new or empty, and is left as it was when no entry can be used (`DataError`).
    """
    check_making(making)
    columns = named_columns(table.columns, making.columns)
    with new_suite_folder(making.out):
        writer = _Writer(table, columns, making.out / "data")
        for row in table.rows:
            writer.add(row)
        return _finished(writer, making)


@contextmanager
def new_suite_folder(out: Path) -> Iterator[None]:
    """`out/data/images`, and nothing of it where its making fails."""
    existed = out.is_dir()
    make_folder(out / "data" / "images")
    try:
        yield
    except BaseException as fault:
        shutil.rmtree(out / "data" if existed else out, ignore_errors=True)
        if isinstance(fault, OSError):
            raise disk_error(fault, out) from fault
        raise


def check_making(making: Making) -> None:
    """`UsageError` for a name, a scorer or a folder that the suite cannot have."""
    _check_name(making.name)
    open_scorer(making.scorer)
    refuse_file(making.out)
    if making.out.is_dir() and any(making.out.iterdir()):
        raise UsageError(
            f"--out {making.out}: not empty", hint="Choose a new folder, or remove the suite that lies there."
        )


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise UsageError(
            f"--name {name!r}, expected at most 64 of a-z, 0-9 and -", hint="For example --name our-invoices."
        )
    if is_suite(name):
        raise UsageError(f"--name {name!r}: a suite that has this name already", hint="Choose another.")


def _finished(writer: _Writer, making: Making) -> MadeSuite:
    check_any(writer.samples, writer.left_out, "entry")
    samples = [
        sample.model_copy(
            update={"attributes": {k: v for k, v in sample.attributes.items() if k not in writer.ignored}}
        )
        for sample in sorted(writer.samples, key=lambda one: one.sample_id)
    ]
    lines = "".join(json.dumps(one.model_dump(), ensure_ascii=False) + "\n" for one in samples).encode()
    write_atomic(making.out / "data" / "samples.jsonl", lines)
    counts = Counter(sample.task for sample in samples)
    tasks: dict[Task, int] = {task: counts[task] for task in TASKS if counts[task]}
    manifest = making.out / f"{making.name}.toml"
    described = ", ".join(f"{count} {task}" for task, count in tasks.items())
    data = ('data = "data"', f'annotation_sha256 = "{bytes_digest(lines)}"')
    text = manifest_text(making, described, tasks, kind="crops", scorer=making.scorer, data=data)
    write_atomic(manifest, text.encode())
    write_left_out(making.out, writer.left_out)
    return MadeSuite(
        manifest=manifest,
        tasks=dict(tasks.items()),
        inferred={task: n for task in TASKS if (n := writer.inferred[task])},
        columns=writer.columns,
        attributes=tuple(dict.fromkeys(name for sample in samples for name in sample.attributes)),
        ignored_columns=writer.ignored,
        undelimited=writer.undelimited,
        left_out=tuple(writer.left_out),
    )


def check_any(used: Sequence[object], left_out: Sequence[LeftOut], what: str) -> None:
    """`DataError` where not one `what` can be used."""
    if not used:
        first = f", the first: {left_out[0].line}" if left_out else ""
        raise DataError(
            f"no {what} of {len(left_out)} can be used{first}", hint="Mend the truth or the images."
        )


def write_left_out(folder: Path, left_out: Sequence[LeftOut]) -> None:
    """`left_out.jsonl`, where anything was left out."""
    listed = [json.dumps({"where": o.where, "what": o.what, "why": o.why}) + "\n" for o in left_out]
    if listed:
        write_atomic(folder / LEFT_OUT, "".join(listed).encode())


def quoted(text: str) -> str:
    """A TOML string: as JSON has it, but for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def manifest_text(
    making: Making, description: str, tasks: Iterable[Task], *, kind: str, scorer: str, data: Sequence[str]
) -> str:
    """A suite's TOML: its head, the lines `data` that say what was annotated, prompts and budgets."""
    tasks = tuple(tasks)
    lines = [
        f"name = {quoted(making.name)}",
        "version = 1",
        f"description = {quoted(printable(making.description or description))}",
        f"kind = {quoted(kind)}",
        f"scorer = {quoted(scorer)}",
        *data,
        "\n[prompts]",
        *(f"{task} = {quoted({**PROMPTS, **making.prompts}[task])}" for task in tasks),
        "\n[max_new_tokens]",
        *(f"{task} = {({**BUDGETS, **making.budgets})[task]}" for task in tasks),
    ]
    return "\n".join(lines) + "\n"


def _name_of(value: object) -> str:
    return str(value.get("path") or "") if isinstance(value, Mapping) else str(value or "")


def _suffix(name: str, data: bytes) -> str:
    """Ending of the image's copy: that of its name, else that of its first bytes."""
    own = PurePosixPath(name).suffix.lower()
    if re.fullmatch(r"\.[a-z0-9]{1,5}", own):
        return own
    return next((suffix for magic, suffix in _FORMATS if data.startswith(magic)), "")
