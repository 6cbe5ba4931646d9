"""Samples of a suite: one annotation line each, checked field by field before anything runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

from pydantic import Field, StrictBool, StrictInt, StrictStr, ValidationError

from gravbench.errors import DataError, has_controls, shortened
from gravbench.imaging import bytes_digest, file_digest, is_within, read_bounded
from gravbench.records import Record, Task

MAX_ANNOTATION_BYTES = 256 * 1024 * 1024
_INSIDE = "Put the file itself into that folder, and its path from there into this field."
_HEX_DIGEST = r"^[0-9a-f]{64}$"


class Annotation(Record):
    """One line of `samples.jsonl`. `image` is relative to the data folder, with forward slashes."""

    sample_id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")
    task: Task
    image: StrictStr = Field(min_length=1)
    image_sha256: str = Field(pattern=_HEX_DIGEST)
    reference: StrictStr
    attributes: dict[StrictStr, StrictBool | StrictInt | StrictStr] = Field(default_factory=dict)


class Sample(Record):
    """A crop with its ground truth. `image_path` is absolute and resolved; `attributes` feed breakdowns."""

    sample_id: str
    task: Task
    image_path: str
    image_sha256: str
    reference: str
    attributes: dict[str, bool | int | str]

    @property
    def fault(self) -> None:
        """A crop that cannot be read is a fault of its whole suite."""

    @property
    def truth(self) -> str:
        return self.reference

    @property
    def content(self) -> str:
        """The truth as a person reads it."""
        return self.reference

    @property
    def page(self) -> str | None:
        """Name of the page that it was cut from; `None` for a crop of its own."""
        name = self.attributes.get("page")
        return None if name is None else str(name)

    @property
    def image_name(self) -> str:
        """Base name of the image."""
        return PurePath(self.image_path).name

    @property
    def annotated(self) -> None:
        """A crop's truth names no places, so no size that they count in."""

    @property
    def reference_sha(self) -> str:
        return bytes_digest(self.reference.encode("utf-8"))


def read_samples(data_dir: Path, annotations: str, sha256: str) -> tuple[Sample, ...]:
    """Every sample of a data folder, sorted by `sample_id`; file and image digests are checked.

    `annotations` is the annotation file's name in `data_dir`. No samples, a repeated id, a wrong digest or
    an image outside the folder is a `DataError`.
    """
    path = contained_path(data_dir, annotations, where=f"{data_dir}: field annotations")
    data = read_bounded(path, limit=MAX_ANNOTATION_BYTES, what="annotation file")
    found = bytes_digest(data)
    if found != sha256:
        raise DataError(
            f"{path}: sha256 is {found}, the suite expects {sha256}",
            hint="restore the suite's data, or state the new digest and raise the version in its manifest",
        )
    samples: dict[str, Sample] = {}
    for number, line in _numbered_lines(data, path):
        sample = _sample(data_dir, _annotation(line, f"{path}:{number}"), f"{path}:{number}")
        if sample.sample_id in samples:
            raise DataError(
                f"{path}:{number}: field sample_id: {sample.sample_id!r} occurs twice, expected once"
            )
        samples[sample.sample_id] = sample
    if not samples:
        raise DataError(f"{path}: no samples, expected at least one line", hint="restore the suite's data")
    return tuple(samples[key] for key in sorted(samples))


def contained_path(folder: Path, relative: str, *, where: str) -> Path:
    """`folder / relative` resolved; `DataError` if it is absolute or leaves `folder` by `..` or a link.

    Files of a snapshot in the hub's cache are links to the repository's own `blobs/`: these may be followed.
    """
    pure = PurePosixPath(relative)
    if pure.is_absolute() or ".." in pure.parts or "\\" in relative or not pure.parts:
        raise DataError(f"{where}: {relative!r}, expected a relative path inside {folder}", hint=_INSIDE)
    if has_controls(relative):
        raise DataError(
            f"{where}: {relative!a}, expected a path without control characters or half surrogate pairs",
            hint="Rename the file and what points to it.",
        )
    try:
        root = folder.resolve()
        resolved = (root / pure).resolve()
        if is_within(resolved, root):
            resolved.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, RuntimeError, ValueError) as fault:
        raise DataError(
            f"{where}: {shortened(relative, 120)!r}: {getattr(fault, 'strerror', None) or fault}",
            hint="Put a regular, readable file there, under a shorter name if need be.",
        ) from fault
    if not is_within(resolved, root):
        raise DataError(
            f"{where}: {relative!r} leads outside {folder} by a link, expected a path inside", hint=_INSIDE
        )
    return resolved


def describe_fault(fault: ValidationError) -> str:
    """First problem of a pydantic error as `field NAME: value, expectation`."""
    problem = fault.errors(include_url=False)[0]
    field = ".".join(map(str, problem["loc"])) or "(record)"
    if problem["type"] == "extra_forbidden":
        return f"unknown key {field!r}, expected only the documented keys"
    if problem["type"] == "missing":
        return f"field {field}: missing"
    value = repr(problem["input"])
    return f"field {field}: {value if len(value) <= 80 else value[:77] + '...'}: {problem['msg']}"


def _numbered_lines(data: bytes, path: Path) -> Iterator[tuple[int, str]]:
    for number, raw in enumerate(data.split(b"\n"), start=1):
        if raw.strip():
            try:
                yield number, raw.decode("utf-8")
            except UnicodeDecodeError as fault:
                raise DataError(f"{path}:{number}: not UTF-8 at byte {fault.start} of the line") from fault


def _annotation(line: str, where: str) -> Annotation:
    try:
        value = json.loads(line, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as fault:
        raise DataError(f"{where}: not a JSON object: {fault}", hint="restore the suite's data") from fault
    if not isinstance(value, dict):
        raise DataError(f"{where}: {type(value).__name__}, expected a JSON object")
    try:
        annotation = Annotation.model_validate(value)
        annotation.reference.encode("utf-8")
    except ValidationError as fault:
        raise DataError(
            f"{where}: {describe_fault(fault)}", hint="correct the line, then its digest"
        ) from fault
    except UnicodeEncodeError as fault:
        raise DataError(f"{where}: field reference: half a surrogate pair, expected Unicode text") from fault
    return annotation


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ValueError("a key occurs twice")
    return record


def _sample(data_dir: Path, annotation: Annotation, where: str) -> Sample:
    path = contained_path(data_dir, annotation.image, where=f"{where}: field image")
    if not path.is_file():
        raise DataError(
            f"{where}: field image: {annotation.image!r} not found", hint="restore the suite's data"
        )
    found = file_digest(path)
    if found != annotation.image_sha256:
        raise DataError(
            f"{where}: field image_sha256: {annotation.image_sha256}, but {annotation.image} has {found}",
            hint="restore the image from the suite's source",
        )
    return Sample(
        sample_id=annotation.sample_id,
        task=annotation.task,
        image_path=str(path),
        image_sha256=annotation.image_sha256,
        reference=annotation.reference,
        attributes=dict(annotation.attributes),
    )
