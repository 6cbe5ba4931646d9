"""Answers that another program wrote -> answers by sample id: trees of Markdown, or JSON Lines.

Nothing outside the given folder is read: links that leave it are refused, archives are not opened.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import ConfigDict, ValidationError, model_validator

from gravbench.errors import DataError, UsageError, printable, shortened
from gravbench.imaging import read_bounded
from gravbench.metrics.edit_distance import nearest_name
from gravbench.omnidocbench.evaluation import read_prediction
from gravbench.records import Counters, Record, StopReason, Times
from gravbench.store.rundir import PairKey
from gravbench.suites.olmocr_pages import SLASH, page_id
from gravbench.suites.samples import contained_path, describe_fault
from gravbench.suites.truth_tables import ARCHIVES

MAX_LINES_BYTES = 4 * 1024 * 1024 * 1024
MAX_REPEATS = 1_000
SHOWN = 3


class ForeignAnswer(Record):
    """One answer. What its program did not tell is `None`.

    `model_config` keeps fields that are not read here out of the way: the line is somebody else's.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    text: str
    token_ids: tuple[int, ...] | None = None
    counters: Counters | None = None
    times: Times | None = None
    stop_reason: StopReason | None = None
    loop_flag: bool | None = None
    error: str | None = None

    @model_validator(mode="after")
    def _one_count(self) -> ForeignAnswer:
        told = None if self.counters is None else self.counters.tokens_out
        if self.token_ids is not None and told not in (None, len(self.token_ids)):
            raise ValueError(f"{len(self.token_ids)} token_ids, counters.tokens_out is {told}")
        self.text.encode("utf-8")
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignPredictions:
    """Answers by sample id and repeat, and what did not fit: `unused` files or lines, and `missing` ones."""

    kind: str
    """Whose tree it is, in words."""
    answers: Mapping[PairKey, ForeignAnswer]
    """Repeats count from 0."""
    missing: tuple[str, ...]
    """Samples without any answer by their ids, of others each repeat that is not there."""
    unused: tuple[str, ...]

    @property
    def repeats(self) -> int:
        """Answers that a sample may have: as many as the one with most."""
        return max((rep for _, rep in self.answers), default=0) + 1

    @property
    def caution(self) -> str | None:
        """What is missing and what nothing was made of, in a sentence; `None` where all fits."""
        parts = []
        if self.missing:
            parts.append(f"{_listed(self.missing)} without a prediction")
        if self.unused:
            parts.append(f"{_listed(self.unused)} of no sample")
        bare = [_bare(name) for name in self.unused]
        near = [
            f"{name} for {bare[meant]}"
            for name in self.missing[:SHOWN]
            if (meant := nearest_name(name, bare)) is not None
        ]
        return "; ".join(parts) + (f" (perhaps {', '.join(near)})" if near else "") if parts else None


@dataclass(frozen=True, slots=True)
class Tree:
    """How one program lays out its Markdown: the words for it, and the sample that a file is of.

    `stem_of` takes the file's path below the folder and answers `None` where it is not of this kind.
    """

    name: str
    stem_of: Callable[[PurePosixPath, Collection[str]], str | None]


_REPEAT = re.compile(r"_repeat(\d+)$")


def _mineru(path: PurePosixPath, _: Collection[str]) -> str | None:
    method = path.parent.name
    ours = re.fullmatch(r"auto|ocr|txt|vlm|hybrid_\w+|pipeline", method) is not None
    return path.stem if ours and len(path.parts) > 2 and path.parts[-3] == path.stem else None


def _dots(path: PurePosixPath, _: Collection[str]) -> str | None:
    """`STEM_nohf.md` is the page without header and footer, made for benchmarks."""
    return path.stem.removesuffix("_nohf") if path.stem.endswith("_nohf") else None


def _marker(path: PurePosixPath, files: Collection[str]) -> str | None:
    return path.stem if path.parent.name == path.stem and _beside(path, files, "_meta.json") else None


def _paddle(path: PurePosixPath, files: Collection[str]) -> str | None:
    return path.stem if _beside(path, files, "_res.json") else None


def _olmocr(path: PurePosixPath, _: Collection[str]) -> str | None:
    named = re.fullmatch(rf"(.+)_pg(\d+){_REPEAT.pattern}", path.stem)
    if named:
        return page_id(f"{path.parent / named[1]}.pdf", named[2])
    return path.stem if path.parts[0] == "markdown" and len(path.parts) > 1 else None


def _beside(path: PurePosixPath, files: Collection[str], ending: str) -> str | None:
    return path.stem if str(path.with_name(path.stem + ending)) in files else None


TREES = (
    Tree("MinerU (DOCUMENT/auto/DOCUMENT.md)", _mineru),
    Tree("dots.ocr (PAGE_nohf.md, without header and footer)", _dots),
    Tree("marker (DOCUMENT/DOCUMENT.md, DOCUMENT_meta.json)", _marker),
    Tree("PaddleOCR-VL (PAGE.md, PAGE_res.json)", _paddle),
    Tree("olmOCR (markdown/ or PAGE_pgN_repeatN.md)", _olmocr),
    Tree("a folder of Markdown (PAGE.md)", lambda path, _: path.stem),
)
"""Tried in this order; the first that knows more than half of the Markdown files is taken."""


def read_predictions(path: Path, samples: Sequence[str], *, arm: str | None = None) -> ForeignPredictions:
    """The answers below `path` for these sample ids; `arm` picks one of a file that holds several.

    `DataError` when none fits any sample; single ones that are missing or too many are listed.
    """
    if path.suffix.lower() in ARCHIVES:
        raise UsageError(f"--predictions {path}: an archive", hint="Unpack it, then name the folder.")
    if not path.exists():
        raise DataError(
            f"--predictions {path}: not found", hint="Name a folder of Markdown or a .jsonl file."
        )
    if path.is_dir():
        found = _from_folder(path, samples)
    elif path.suffix.lower() in (".jsonl", ".ndjson"):
        found = _from_lines(path, samples, arm)
    else:
        raise UsageError(
            f"--predictions {path}: ending {path.suffix!r}, expected a folder of Markdown or .jsonl",
            hint="One JSON object a line, for example {\"id\": \"page-1\", \"text\": \"...\"}.",
        )  # fmt: skip
    if not found.answers:
        raise DataError(
            f"--predictions {path}: no prediction fits a sample of the suite; {found.caution}",
            hint="Files are named after page images: page_1.png -> page_1.md; lines have the sample's id.",
        )
    return found


def _from_folder(folder: Path, samples: Sequence[str]) -> ForeignPredictions:
    files = sorted(_files_below(folder))
    if any(name.endswith(".jsonl") and "/results/" in f"/{name}" for name in files):
        return _from_dolma(folder, [n for n in files if n.endswith(".jsonl")], samples)
    known = frozenset(files)
    pages = [PurePosixPath(name) for name in files if name.endswith((".md", ".mmd"))]
    pages = [page for page in pages if str(page.with_name(f"{page.stem}_nohf.md")) not in known]
    for tree in TREES:
        stems = [(tree.stem_of(page, known), page) for page in pages]
        if 2 * sum(stem is not None for stem, _ in stems) > len(pages):
            break
    wanted = _by_name(samples)
    by_sample: dict[str, list[PurePosixPath]] = {}
    unused: list[str] = []
    for stem, page in stems:
        sample = _sample_of(stem, wanted) if stem is not None else None
        if sample is not None:
            by_sample.setdefault(sample, []).append(page)
        else:
            unused.append(str(page))
    answers = {
        (sample, rep): _page(folder, page)
        for sample, found in by_sample.items()
        for rep, page in enumerate(_in_repeats(folder, sample, found))
    }
    return _held_against(samples, answers, unused, kind=tree.name)


def _held_against(
    samples: Sequence[str], answers: Mapping[PairKey, ForeignAnswer], unused: Sequence[str], *, kind: str
) -> ForeignPredictions:
    found = ForeignPredictions(kind=kind, answers=answers, missing=(), unused=tuple(unused))
    missing: list[str] = []
    for name in samples:
        lost = [rep for rep in range(found.repeats) if (name, rep) not in answers]
        whole = len(lost) == found.repeats
        missing += [name] if whole else [f"{name}, repeat {rep + 1}" for rep in lost]
    return replace(found, missing=tuple(missing))


def _by_name(samples: Sequence[str]) -> dict[str, str]:
    """Samples by their names as they are, and in small letters where no other is called so."""
    return {name.lower(): name for name in samples} | {name: name for name in samples}


def _sample_of(stem: str, wanted: Mapping[str, str]) -> str | None:
    """The sample of a file's stem; the image's ending may be left on, or the page's number from 0 put on."""
    alone = stem.rpartition(SLASH)[2]
    numbered = re.sub(r"(_page)?_(\d{1,6})$", lambda found: f"_pg{int(found[2]) + 1}", stem)
    bare = (re.sub(r"(_page)?_0$", "", stem), re.sub(r"_pg\d+$", "", alone))
    names = (stem, PurePosixPath(stem).stem, *bare, numbered)
    return next((wanted[name] for name in (*names, *(n.lower() for n in names)) if name in wanted), None)


def _in_repeats(folder: Path, sample: str, found: Sequence[PurePosixPath]) -> list[PurePosixPath]:
    """The files of one sample by the number behind `_repeat`, which tells several apart."""
    if len(found) == 1:
        return list(found)
    numbered = {int(named[1]): page for page in found if (named := _REPEAT.search(page.stem))}
    if len(numbered) < len(found) or len(found) > MAX_REPEATS:
        raise DataError(
            f"{folder}: sample {sample!r} has {len(found)} files: {', '.join(map(str, found[:SHOWN]))}",
            hint="Keep one of them, or name a folder that holds one run of the program. "
            "Repeats of a page are called NAME_pg1_repeat1.md, NAME_pg1_repeat2.md.",
        )
    return [page for _, page in sorted(numbered.items())]


def _page(folder: Path, page: PurePosixPath) -> ForeignAnswer:
    place = contained_path(folder, str(page), where=str(folder))
    read = read_prediction(place)
    return ForeignAnswer(text=read.markdown or "", error=read.crash)


def _files_below(folder: Path) -> Iterator[str]:
    """Paths below `folder`, with `/`; hidden folders are left alone and linked ones not entered."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in names:
            yield (Path(place) / name).relative_to(folder).as_posix()


def _from_lines(path: Path, samples: Sequence[str], arm: str | None) -> ForeignPredictions:
    data = read_bounded(path, limit=MAX_LINES_BYTES, what="predictions")
    wanted, arms = set(samples), set[str]()
    answers: dict[PairKey, ForeignAnswer] = {}
    unused: list[str] = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        where = f"{path.name}:{number}"
        value = _line(line, where)
        own = value.get("arm")
        if arm is not None and own is not None and own != arm:
            continue
        arms.add(str(own))
        name, rep = _name_of(value, where), _rep_of(value, where)
        if name not in wanted:
            unused.append(shortened(printable(name), 60))
        elif (name, rep) in answers:
            chosen = ", or choose one with --of ARM" if len(arms) > 1 else ""
            raise DataError(
                f"{where}: {name!r} occurs twice{_arms_said(arms)}",
                hint=f"Keep one line a sample, or count its repeats from 0 with a field rep{chosen}.",
            )
        else:
            answers[name, rep] = _answer(value, where)
    return _held_against(samples, answers, unused, kind="JSON Lines")


def _arms_said(arms: Collection[str]) -> str:
    return f", in arms {', '.join(sorted(arms))}" if len(arms) > 1 else ""


def _line(line: bytes, where: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as fault:
        raise DataError(f"{where}: not JSON: {fault}", hint="Write one object a line.") from fault
    if not isinstance(value, dict):
        raise DataError(f"{where}: {type(value).__name__}, expected an object", hint="Write one a line.")
    return value


def _name_of(value: Mapping[str, Any], where: str) -> str:
    for key in ("sample_id", "id", "image", "page"):
        name = value.get(key)
        if isinstance(name, str):
            return PurePosixPath(name).stem if key in ("image", "page") else name
    raise DataError(
        f"{where}: no sample named, found {printable(', '.join(value))}",
        hint="Add sample_id (gravbench suites show lists tasks), or image, the image's name.",
    )


def _rep_of(value: Mapping[str, Any], where: str) -> int:
    rep = value.get("rep", 0)
    if isinstance(rep, bool) or not isinstance(rep, int) or not 0 <= rep < MAX_REPEATS:
        raise DataError(
            f"{where}: field rep: {printable(str(rep))}, expected 0 to {MAX_REPEATS - 1}",
            hint="Repeats of a sample count from 0; leave the field out where there is one answer.",
        )
    return rep


def _answer(value: Mapping[str, Any], where: str) -> ForeignAnswer:
    text = next((value[key] for key in ("text", "markdown", "prediction", "output") if key in value), None)
    if text is None and value.get("error"):
        text = ""
    try:
        return ForeignAnswer.model_validate({**value, "text": text})
    except ValidationError as fault:
        raise DataError(f"{where}: {describe_fault(fault)}", hint="Correct the line.") from fault


def _from_dolma(folder: Path, files: Sequence[str], samples: Sequence[str]) -> ForeignPredictions:
    """olmOCR's workspace: `results/*.jsonl`, one document a line, named after its `Source-File`."""
    wanted = _by_name(samples)
    answers: dict[PairKey, ForeignAnswer] = {}
    unused: list[str] = []
    for name in files:
        place = contained_path(folder, name, where=str(folder))
        data = read_bounded(place, limit=MAX_LINES_BYTES, what="predictions")
        for number, line in enumerate(filter(bytes.strip, data.split(b"\n")), start=1):
            where = f"{name}:{number}"
            value = _line(line, where)
            meta = value.get("metadata")
            source = str(meta.get("Source-File", "")) if isinstance(meta, dict) else ""
            sample = _sample_of(PurePosixPath(source).stem, wanted)
            if sample is None:
                unused.append(shortened(printable(source or where), 60))
            elif (sample, 0) in answers:
                raise DataError(f"{where}: {sample!r} occurs twice", hint="Keep one workspace a folder.")
            else:
                answers[sample, 0] = _answer({"text": value.get("text")}, where)
    return _held_against(samples, answers, unused, kind="olmOCR (results/*.jsonl)")


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:SHOWN])
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return f"{len(names):,} ({shown}{more})"


def _bare(name: str) -> str:
    return PurePosixPath(name).stem
