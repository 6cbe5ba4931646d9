"""Texts supplied for the samples of a run: what somebody else has already read there, as token ids.

A file of JSON lines, or the folder of a run (its `gen/*.jsonl`). A line names a `sample_id` and holds
`token_ids` of this model, or a `text` that its tokenizer takes apart; other fields are ignored, as are
failed answers. A page of a run supplies its text, and each of its regions that of the region. A region of a
page has the texts of its own name `page#region`, or else those of its page: so the regions that a run has
read are drafts of the same regions (stage 1 of HSD), and put together those of a model that reads the page
as a whole (stage 2, `--layout none`). Whether a text is worth anything shows when it is verified.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from gravbench.decoding.protocols import ModelInfo
from gravbench.errors import UsageError
from gravbench.records import Request

HINT = 'Name a run folder, or a file of lines like {"sample_id": "text-001", "text": "..."}.'


@dataclass(frozen=True, slots=True)
class Texts:
    """Sample -> its texts, each once, in the order met; EOS at their end where it is known."""

    by_sample: Mapping[str, Sequence[tuple[int, ...]]]

    def of(self, request: Request) -> Sequence[tuple[int, ...]]:
        """The texts of a request; none where nothing was supplied."""
        name = request.sample_id
        return self.by_sample.get(name) or self.by_sample.get(name.partition("#")[0], ())


NO_TEXTS = Texts({})


def texts_of(path: str | None, info: ModelInfo, arm: str) -> Texts:
    """What `path` supplies; `UsageError` for one that is not there, cannot be read, or holds no text."""
    if path is None:
        return NO_TEXTS
    try:
        stamps = tuple((str(file), file.stat().st_mtime_ns) for file in _files(path))
    except OSError as error:
        raise UsageError(f"{arm}: texts={path}: cannot be read: {error.strerror}", hint=HINT) from error
    found = _read(stamps, info, arm)
    if not found.by_sample:
        raise UsageError(f"{arm}: texts={path}: holds no text of any sample", hint=HINT)
    return found


def texts_digest(path: str, arm: str) -> str:
    """SHA-256 of the bytes that `path` supplies, wherever they lie; `UsageError` for unreadable ones."""
    digest = hashlib.sha256()
    try:
        for file in _files(path):
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    except OSError as error:
        raise UsageError(f"{arm}: texts={path}: cannot be read: {error.strerror}", hint=HINT) from error
    return digest.hexdigest()


def named_in(path: str, arm: str) -> set[str]:
    """Samples that `path` supplies a text for; of regions their page. `UsageError` as for `texts_of`."""
    try:
        lines = [line for file in _files(path) for _, line in _lines(file, arm)]
    except OSError as error:
        raise UsageError(f"{arm}: texts={path}: cannot be read: {error.strerror}", hint=HINT) from error
    read = (line for line in lines if line.get("status", "ok") == "ok")
    return {str(line["sample_id"]).partition("#")[0] for line in read}


def _files(path: str) -> list[Path]:
    folder = Path(path)
    return sorted(folder.glob("gen/*.jsonl")) if folder.is_dir() else [folder]


@lru_cache(maxsize=4)
def _read(stamps: tuple[tuple[str, int], ...], info: ModelInfo, arm: str) -> Texts:
    found: dict[str, dict[tuple[int, ...], None]] = {}
    for file, _ in stamps:
        for where, line in _lines(Path(file), arm):
            if line.get("status", "ok") == "ok":
                for name, supplied in _supplied(line):
                    ids = _ids(supplied, info, f"{arm}: {where}")
                    if ids:
                        found.setdefault(name, {})[ids] = None
    return Texts({name: tuple(ids) for name, ids in found.items()})


def _lines(file: Path, arm: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Objects of a file of JSON lines, each with its place."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{arm}: {file}: cannot be read: {error}", hint=HINT) from error
    for number, line in enumerate(text.split("\n"), start=1):  # text may hold U+2028 and the like
        if not line.strip():
            continue
        where = f"{file}, line {number}"
        try:
            held = json.loads(line)
        except json.JSONDecodeError as error:
            raise UsageError(f"{arm}: {where}: not JSON: {error.msg}", hint=HINT) from error
        if not isinstance(held, dict) or "sample_id" not in held:
            raise UsageError(f"{arm}: {where}: no field sample_id", hint=HINT)
        yield where, held


def _supplied(line: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Names with what the line supplies for them: the sample, and the regions of a page of a run."""
    name = str(line["sample_id"])
    yield name, line
    for piece in line.get("pieces") or ():
        if piece.get("region_id") and piece.get("error") is None:
            yield f"{name}#{piece['region_id']}", piece | {"token_ids": None}


def _ids(line: dict[str, Any], info: ModelInfo, where: str) -> tuple[int, ...]:
    """Token ids of a line."""
    ids = line.get("token_ids")
    if ids is not None:
        if not isinstance(ids, list) or not all(type(n) is int and 0 <= n < info.vocab_size for n in ids):
            raise UsageError(
                f"{where}: token_ids: expected ids from 0 to {info.vocab_size - 1}, those of this model",
                hint="Supply `text` instead: the tokenizer of this model takes it apart.",
            )
        return tuple(ids)
    text = line.get("text")
    if not isinstance(text, str):
        raise UsageError(f"{where}: neither token_ids nor text", hint=HINT)
    if info.encode is None:
        raise UsageError(f"{where}: this backend has no tokenizer for `text`", hint="Supply token_ids.")
    return (*info.encode(text), info.eos_token_ids[0])
