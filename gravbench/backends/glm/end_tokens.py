"""Which tokens end an answer, and which file of the checkpoint says so."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gravbench.backends.glm.checkpoint import GENERATION_CONFIG, CheckpointFiles, read_json
from gravbench.errors import EngineError

FIELD = "eos_token_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTokens:
    """Ids in the order stated, and the name of the file that states them."""

    ids: tuple[int, ...]
    source: str


def read_end_tokens(files: CheckpointFiles) -> EndTokens:
    """End tokens of generation_config.json, else of config.json (text_config, then top level).

    One id or a list. Absent and null mean not stated; any other value that is no token is an `EngineError`.
    """
    generation, config = files.folder / GENERATION_CONFIG, files.folder / "config.json"
    text = files.config["text_config"]
    stated: list[tuple[Path, str, dict[str, Any]]] = [
        (config, "text_config.", text),
        (config, "", files.config),
    ]
    if generation.is_file():
        stated.insert(0, (generation, "", read_json(generation)))
    for path, prefix, document in stated:
        value = document.get(FIELD)
        if value is not None:
            ids = _token_ids(value, text["vocab_size"], where=f"{path}: {prefix}{FIELD}")
            return EndTokens(ids=ids, source=path.name)
    raise EngineError(
        f"{generation}: {FIELD} is missing, and config.json has none either",
        hint="State the token that ends an answer, or the list of them, as the checkpoint was trained.",
    )


def _token_ids(value: object, vocab_size: int, *, where: str) -> tuple[int, ...]:
    ids = value if isinstance(value, list) else [value]
    if ids and all(type(i) is int and 0 <= i < vocab_size for i in ids):
        return tuple(ids)
    raise EngineError(
        f"{where} is {repr(value)[:80]}, expected a token id from 0 to {vocab_size - 1} or a list of them",
        hint="Correct the file, or copy it from the checkpoint again.",
    )
