"""A checkpoint folder: which files it needs, what they say or leave unsaid, and one line when they are wrong.

The folder is a standard GLM-OCR one plus, when it can draft, `block_diffusion.json`. Weights are
safetensors only and no code from the folder is run.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gravbench.backends.checkpoint_contents import refuse_adapter_files, refuse_foreign_contents
from gravbench.errors import EngineError

BLOCK_DIFFUSION = "block_diffusion.json"
GENERATION_CONFIG = "generation_config.json"
_WEIGHTS = "model.safetensors"
_WEIGHT_INDEX = "model.safetensors.index.json"
IMAGE_CONFIGS = ("preprocessor_config.json", "processor_config.json")
_IDENTITY_FILES = (
    "config.json",
    GENERATION_CONFIG,
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    *IMAGE_CONFIGS,
    BLOCK_DIFFUSION,
)
HEADS = ("mtp",)
"""Small drafting heads that may lie beside the weights, each in `NAME.safetensors`."""
_OTHER_ENGINE = (
    "Checkpoints of GLM-OCR and GravityOCR run here. What another engine read can be scored: one Markdown "
    "file a page, then `gravbench omnidoc --gt OmniDocBench.json --predictions DIR`."
)
_COPY_AGAIN = "Copy the whole checkpoint folder again, or name the one that has it with --model."
END_TOKEN = "eos_token_id"
IMAGE_SETTINGS = ("patch_size", "merge_size", "temporal_patch_size", "size", "image_mean", "image_std")
"""What the processor would silently fill in with its own defaults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockDiffusion:
    """`block_diffusion.json`, the fields decoding uses. Other fields belong to the trainer."""

    bd_size: int
    mask_id: int
    ar_loss_weight: float | None
    """> 0: the causal path is trained, so the checkpoint may verify its own drafts. `None`: not stated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFiles:
    """A folder whose files are all there and readable."""

    folder: Path
    config: dict[str, Any]
    weight_files: tuple[Path, ...]
    tensors: frozenset[str]
    """Names of all tensors in the weight files."""
    block_diffusion: BlockDiffusion | None

    def digest(self) -> str:
        """sha256 over (file name, sha256) of everything that can change an output or a draft."""
        possible = (*_IDENTITY_FILES, *(f"{head}.safetensors" for head in HEADS))
        names = [name for name in possible if (self.folder / name).is_file()]
        whole = hashlib.sha256()
        for path in sorted([*(self.folder / name for name in names), *self.weight_files]):
            with path.open("rb") as stream:
                content = hashlib.file_digest(stream, "sha256").hexdigest()
            whole.update(f"{path.name}\0{content}\n".encode())
        return whole.hexdigest()


def read_checkpoint(folder: Path) -> CheckpointFiles:
    """Check that `folder` is a complete GLM-OCR checkpoint; `EngineError` names what is missing or broken."""
    if not folder.is_dir():
        raise EngineError(f"{folder}: no such checkpoint folder", hint="pass --model DIR")
    refuse_adapter_files(folder)
    config = read_json(folder / "config.json")
    if config.get("model_type") != "glm_ocr":
        raise EngineError(
            f"{folder / 'config.json'}: model_type is {config.get('model_type')!r}, expected 'glm_ocr'",
            hint=_OTHER_ENGINE,
        )
    for name in ("tokenizer.json", "tokenizer_config.json"):
        read_json(folder / name)
    for name in (GENERATION_CONFIG, *IMAGE_CONFIGS):
        if (folder / name).is_file():
            read_json(folder / name)
    if not any((folder / name).is_file() for name in IMAGE_CONFIGS):
        raise EngineError(f"{folder / IMAGE_CONFIGS[0]}: missing from the checkpoint", hint=_COPY_AGAIN)
    weight_files = _weight_files(folder)
    tensors = {name: kind for path in weight_files for name, kind in _stored_tensors(path).items()}
    refuse_foreign_contents(folder, config, tensors, weights=weight_files[0].name)
    text_config = config.get("text_config")
    if not isinstance(text_config, dict):
        raise EngineError(f"{folder / 'config.json'}: text_config is missing or not an object")
    vocab_size = _field(text_config, "vocab_size", int, path=folder / "config.json")
    path = folder / BLOCK_DIFFUSION
    return CheckpointFiles(
        folder=folder,
        config=config,
        weight_files=weight_files,
        tensors=frozenset(tensors),
        block_diffusion=read_block_diffusion(path, vocab_size=vocab_size) if path.exists() else None,
    )


def read_block_diffusion(path: Path, *, vocab_size: int) -> BlockDiffusion:
    """Types and ranges of the fields we use are checked; unknown fields are left alone."""
    document = read_json(path)
    bd_size = _field(document, "bd_size", int, path=path)
    mask_id = _field(document, "mask_id", int, path=path)
    if bd_size < 1:
        raise EngineError(f"{path}: bd_size is {bd_size}, expected at least 1")
    if not 0 <= mask_id < vocab_size:
        raise EngineError(f"{path}: mask_id is {mask_id}, outside the vocabulary of {vocab_size} tokens")
    weight = document.get("ar_loss_weight")
    if weight is not None:
        weight = float(_field(document, "ar_loss_weight", (int, float), path=path))
        if not 0 <= weight < float("inf"):
            raise EngineError(f"{path}: ar_loss_weight is {weight}, expected a finite number of at least 0")
    return BlockDiffusion(bd_size=bd_size, mask_id=mask_id, ar_loss_weight=weight)


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
        value = document.get(END_TOKEN)
        if value is not None:
            ids = _token_ids(value, text["vocab_size"], where=f"{path}: {prefix}{END_TOKEN}")
            return EndTokens(ids=ids, source=path.name)
    raise EngineError(
        f"{generation}: {END_TOKEN} is missing, and config.json has none either",
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


def stated_settings(folder: Path) -> tuple[Path, dict[str, Any]]:
    """The file the processor reads its settings from, and what stands there."""
    plain, nested = (folder / name for name in IMAGE_CONFIGS)
    if nested.is_file():
        inner = read_json(nested).get("image_processor")
        if isinstance(inner, dict):
            return nested, inner
    path = plain if plain.is_file() else nested
    return path, read_json(path)


def assumptions(files: CheckpointFiles, tokenizer: Any) -> tuple[str, ...]:
    """One line for each thing assumed, naming the file that would settle it."""
    found = []
    end = read_end_tokens(files)
    if end.source != GENERATION_CONFIG:
        there = (files.folder / GENERATION_CONFIG).is_file()
        ids = ", ".join(map(str, end.ids))
        found.append(
            f"{GENERATION_CONFIG}: {f'{END_TOKEN} is not stated' if there else 'missing'}, so the end tokens "
            f"of {end.source} are assumed: {ids}"
        )
    if not getattr(tokenizer, "chat_template", None):
        found.append("chat_template.jinja: missing, so the prompt is put as GLM-OCR's own template would")
    path, stated = stated_settings(files.folder)
    unsaid = [name for name in IMAGE_SETTINGS if name not in stated]
    if unsaid:
        found.append(f"{path.name}: {', '.join(unsaid)} not stated, so defaults of transformers are assumed")
    return tuple(found)


def _weight_files(folder: Path) -> tuple[Path, ...]:
    single, index = folder / _WEIGHTS, folder / _WEIGHT_INDEX
    if single.is_file():
        return (single,)
    if not index.is_file():
        raise EngineError(f"{single}: missing from the checkpoint", hint="weights must be safetensors")
    mapping = read_json(index).get("weight_map")
    if not isinstance(mapping, dict) or not mapping:
        raise EngineError(f"{index}: weight_map is missing or empty")
    names = sorted({str(name) for name in mapping.values()})
    for name in names:
        if Path(name).name != name:
            raise EngineError(f"{index}: weight_map names '{name}', expected a file of the same folder")
        _require(folder / name)
    return tuple(folder / name for name in names)


def _stored_tensors(path: Path) -> dict[str, str]:
    """Name -> stored type, such as `F32`, from the header, which also states how long the file must be."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="np") as opened:
            return {name: str(opened.get_slice(name).get_dtype()) for name in opened.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise EngineError(
            f"{path}: truncated or not a safetensors file ({error})", hint="copy the checkpoint again"
        ) from error


def _require(path: Path) -> None:
    if not path.is_file():
        raise EngineError(f"{path}: missing from the checkpoint", hint=_COPY_AGAIN)


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object of a file of the checkpoint; `EngineError` when it is missing or is none."""
    _require(path)
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, OSError, RecursionError) as error:
        raise EngineError(
            f"{path}: not readable as JSON ({error})", hint="copy the checkpoint again"
        ) from error
    if not isinstance(document, dict):
        raise EngineError(f"{path}: expected a JSON object, got {type(document).__name__}")
    return document


def _field(document: dict[str, Any], key: str, kind: type | tuple[type, ...], *, path: Path) -> Any:
    value = document.get(key)
    if isinstance(value, bool) or not isinstance(value, kind):
        wanted = "an integer" if kind is int else "a number"
        raise EngineError(f"{path}: {key} is {value!r}, expected {wanted}")
    return value
