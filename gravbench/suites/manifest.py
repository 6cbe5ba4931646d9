"""Suite manifests: one TOML file says what is measured; unknown keys are errors."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StrictInt, ValidationError, model_validator

from gravbench.errors import DataError, UsageError
from gravbench.imaging import read_bounded
from gravbench.records import TASKS, Record, Task
from gravbench.registry import Registry
from gravbench.resources import data_root
from gravbench.scorers.contract import SCORERS
from gravbench.store.schema import sha256_of
from gravbench.suites.samples import Sample, contained_path, describe_fault, read_samples

__all__ = ["Sample", "Suite", "SuiteManifest", "list_suites", "load_samples", "load_suite"]

MAX_MANIFEST_BYTES = 1024 * 1024
DIGEST = r"^[0-9a-f]{64}$"
OTHERS = Registry("gravbench.suites", {})
"""Suites of other packages: each entry point is the path of a manifest, named like the suite."""
Positive = Annotated[StrictInt, Field(ge=1)]


class PageSet(Record):
    """The `[pages]` table: an OmniDocBench folder, and which of its pages belong to the suite.

    With `annotations = "*.jsonl"` it is a folder of olmOCR-Bench's form, test files beside `pdfs/`.

    Either `data` (a folder beside the manifest) or `place` (a folder under GRAVBENCH_DATA, or --data).
    """

    data: str | None = Field(default=None, min_length=1)
    place: str | None = Field(default=None, pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")
    annotations: str = "OmniDocBench.json"
    annotation_sha256: str = Field(default="", pattern=rf"^$|{DIGEST}")
    """Of OmniDocBench's kind it is needed."""
    release: str = Field(min_length=1)
    """What a complete copy may be called; a partial one is named as partial."""
    release_pages: Positive
    digests: str | None = None
    """JSON file in the data folder: image name -> digest of its annotation and image."""
    subsets: tuple[str, ...] = ()
    """Keep pages whose `page_attribute.subset` is one of these; empty keeps all."""
    subset_pages: Positive | None = None
    """How many pages of a complete copy those subsets hold."""
    select: tuple[str, ...] = ()
    """Keep pages whose image stem is one of these; empty keeps all."""
    crop_grid: Positive = 1
    """Region crops are padded with their background to multiples of this many pixels."""
    scorer: str | None = None
    """Who scores the pages, where they stand beside crops that have the suite's own `scorer`."""
    repository: str | None = None
    revision: str | None = Field(default=None, pattern=r"^[0-9a-f]{40}$")
    """Dataset on the Hugging Face hub and its pinned commit, for `gravbench suites fetch`."""

    @model_validator(mode="after")
    def _one_place(self) -> PageSet:
        if (self.data is None) == (self.place is None):
            raise ValueError("give exactly one of data and place")
        if (self.repository is None) != (self.revision is None):
            raise ValueError("repository and revision belong together")
        if not (self.annotation_sha256 or self.has_tests):
            raise ValueError("annotation_sha256 is needed")
        return self

    @property
    def has_tests(self) -> bool:
        """Whether the folder is of olmOCR-Bench's form."""
        return self.annotations == "*.jsonl"


class SuiteManifest(Record):
    """The keys of a suite's TOML file; `data` is relative to its folder, an empty `select` means all.

    `crops` suites have samples of their own and may add pages; `pages` suites have pages alone; `page-crops`
    suites cut their samples from the pages, those of `languages` alone when it is not empty.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")
    version: Positive
    description: str
    kind: Literal["crops", "pages", "page-crops"]
    scorer: str
    data: str = ""
    annotations: str = "samples.jsonl"
    annotation_sha256: str = Field(default="", pattern=rf"^$|{DIGEST}")
    select: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    pages: PageSet | None = None
    prompts: dict[Task, str]
    max_new_tokens: dict[Task, Positive]

    @model_validator(mode="after")
    def _same_tasks(self) -> SuiteManifest:
        if not self.prompts or set(self.max_new_tokens) != set(self.prompts):
            named = [sorted(table) for table in (self.prompts, self.max_new_tokens)]
            raise ValueError(f"prompts and max_new_tokens must name the same tasks, not {named}")
        return self

    @model_validator(mode="after")
    def _kind_has_its_data(self) -> SuiteManifest:
        own = bool(self.data), bool(self.annotation_sha256)
        if self.kind == "crops" and own != (True, True):
            raise ValueError("a crops suite needs data and annotation_sha256")
        if self.kind != "crops" and (own != (False, False) or self.pages is None):
            raise ValueError(
                f"a {self.kind} suite has a [pages] table, and neither data nor annotation_sha256"
            )
        beside = self.kind == "crops" and self.pages is not None
        if beside != (self.pages is not None and self.pages.scorer is not None):
            raise ValueError(
                "pages.scorer is for pages beside crops: there it is needed, elsewhere it is scorer"
            )
        return self


class Suite(SuiteManifest):
    """A manifest with the place it was read from."""

    manifest_path: str

    @property
    def scorers(self) -> tuple[str, ...]:
        """Names of all scorers: the suite's own, and that of pages beside crops."""
        beside = self.pages.scorer if self.pages is not None else None
        return (self.scorer,) if beside is None else (self.scorer, beside)

    @property
    def data_dir(self) -> Path:
        """Resolved data folder, inside the manifest's own folder; it may not exist."""
        folder = Path(self.manifest_path).parent
        return contained_path(folder, self.data, where=f"{self.manifest_path}: field data")

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Tasks of this suite in the fixed order text, table, formula."""
        return tuple(task for task in TASKS if task in self.prompts)


def load_suite(name_or_path: str | Path, *, root: Path | None = None) -> Suite:
    """Suite by name, or by the path of a TOML file or of a folder that holds one.

    Names are those of the manifests in `root`, by default the shipped suites and those of other packages.
    """
    text = str(name_or_path)
    if isinstance(name_or_path, Path) or text.endswith(".toml") or "/" in text or os.sep in text:
        path = Path(name_or_path)
        if path.is_dir():
            return _read(_manifest_in(path))
        if not path.is_file():
            raise UsageError(f"suite manifest {text}: no such file", hint="give a suite name or a .toml file")
        return _read(path)
    known = _manifests(root)
    if text in known:
        return _read(known[text] or Path(OTHERS.load(text)))
    if not known:
        raise DataError(
            f"{root or data_root('suites')}: no suite manifests found",
            hint="reinstall gravbench; suites ship with it",
        )
    if Path(text).is_dir():
        return _read(_manifest_in(Path(text)))
    near = difflib.get_close_matches(text, known, n=3, cutoff=0.4)
    guess = f"did you mean {' or '.join(near)}?" if near else f"known suites: {', '.join(known)}"
    raise UsageError(f"unknown suite {text!r}", hint=guess)


def suite_digest(suite: Suite) -> str:
    """Hash of everything in a manifest that decides what is measured; its place and prose are not in it."""
    return sha256_of(suite.model_dump(mode="json", exclude={"description", "manifest_path", "data"}))


def _manifest_in(folder: Path) -> Path:
    """The one manifest of a folder; `UsageError` that says what to pass where there is none, or several."""
    found = sorted(folder.glob("*.toml"))
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(path.name for path in found[:5])
        raise UsageError(
            f"--suite {folder}: {len(found)} manifests in this folder: {names}",
            hint=f"Name one, for example --suite {found[0]}",
        )
    if (folder / "OmniDocBench.json").is_file():
        raise UsageError(
            f"--suite {folder}: a folder of pages, expected a suite",
            hint=f"Say whose rules apply and where the pages lie: --suite omnidoc16 --data {folder}",
        )
    raise UsageError(
        f"--suite {folder}: no suite manifest (*.toml) in this folder",
        hint="Give a suite name (gravbench suites list) or a .toml file; pages of OmniDocBench's form run "
        "with --suite omnidoc16 --data DIR.",
    )


def list_suites(*, root: Path | None = None) -> tuple[Suite, ...]:
    """Every suite that has a name (or those of `root`), by name; empty when there is none."""
    return tuple(_read(path or Path(OTHERS.load(name))) for name, path in sorted(_manifests(root).items()))


def is_suite(name: str) -> bool:
    """Whether a suite is known by this name alone."""
    return name in _manifests(None)


def _manifests(root: Path | None) -> dict[str, Path | None]:
    """Suite name -> its manifest; `None`: another package says where it lies, once it is asked for."""
    found: dict[str, Path | None] = {path.stem: path for path in (root or data_root("suites")).glob("*.toml")}
    return found if root is not None else {**dict.fromkeys(OTHERS), **found}


def load_samples(suite: Suite) -> tuple[Sample, ...]:
    """Own crops sorted by `sample_id`, every digest checked; those of `select` alone when it is not empty.

    Suites of other kinds have none: `gravbench.suites.data` finds their pages.
    """
    if suite.kind != "crops":
        return ()
    data_dir = suite.data_dir
    if not data_dir.is_dir():
        raise DataError(
            f"suite {suite.name}: data folder {data_dir} not found",
            hint="restore it from the repository or reinstall gravbench",
        )
    samples = read_samples(data_dir, suite.annotations, suite.annotation_sha256)
    wanted = set(suite.select) or {sample.sample_id for sample in samples}
    missing = sorted(wanted - {sample.sample_id for sample in samples})
    if missing:
        raise DataError(f"{suite.manifest_path}: field select: {missing[0]!r} is not in {suite.annotations}")
    chosen = tuple(sample for sample in samples if sample.sample_id in wanted)
    for sample in chosen:
        if sample.task not in suite.prompts:
            raise DataError(
                f"{suite.manifest_path}: no prompt for task {sample.task!r} of {sample.sample_id}"
            )
    return chosen


def _read(path: Path) -> Suite:
    data = read_bounded(path, limit=MAX_MANIFEST_BYTES, what="suite manifest")
    try:
        text = data.decode("utf-8")
        values = tomllib.loads(text)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as fault:
        raise DataError(f"{path}: not a TOML file: {fault}", hint="correct the manifest") from fault
    try:
        manifest = SuiteManifest.model_validate(values)
    except ValidationError as fault:
        location = fault.errors(include_url=False)[0]["loc"]
        key = str(location[0]) if location else ""
        raise DataError(
            f"{path}{_line_of(text, key)}: {describe_fault(fault)}", hint="correct the manifest"
        ) from fault
    if manifest.name != path.stem:
        raise DataError(f"{path}: field name: {manifest.name!r}, expected {path.stem!r} as in the file name")
    suite = Suite.model_validate({**manifest.model_dump(), "manifest_path": str(path.resolve())})
    if suite.data:
        _ = suite.data_dir
    for scorer in suite.scorers:
        if scorer not in SCORERS:
            raise DataError(
                f"{path}{_line_of(text, 'scorer')}: field scorer: {scorer!r}, expected "
                f"one of {', '.join(SCORERS)}",
                hint="Correct the name, or install the package that offers this scorer.",
            )
    return suite


def _line_of(text: str, key: str) -> str:
    pattern = re.compile(rf"^\s*(\[\s*)?[\"']?{re.escape(key)}[\"']?\s*[\].=]") if key else None
    for number, line in enumerate(text.splitlines(), start=1):
        if pattern and pattern.match(line):
            return f":{number}"
    return ""
