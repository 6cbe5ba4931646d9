"""Small drafting heads beside a checkpoint: which there are, their tensors, and whether they fit the model.

A head is a file `NAME.safetensors` in the checkpoint folder. Its metadata says `format` (`gravbench.head/1`)
and what the head is trained for; `weights_sha256`, where stated, is the digest of the weights of its model. A
released GLM-OCR checkpoint has its `mtp` head among its own weights, as one layer more than it decodes with.
Embeddings and output head are always the model's own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from gravbench.backends.checkpoint_contents import refuse_non_finite
from gravbench.backends.glm.checkpoint import HEADS, CheckpointFiles
from gravbench.backends.glm.decoder import GlmDecoder
from gravbench.backends.glm.mtp import MtpHead, mtp_shapes
from gravbench.backends.glm.step_model import OpenHead
from gravbench.decoding.protocols import HeadInfo
from gravbench.errors import EngineError

FORMAT = "gravbench.head/1"
COPY = "Copy the head again, or take it away to decode without it."
OTHER = "The head belongs to another model: train one for this checkpoint, or take it away."


@dataclass(frozen=True, slots=True)
class HeadFile:
    """Where a head lies: weight files, what stands before its tensors' names there, and what it says."""

    paths: Sequence[Path]
    prefix: str
    metadata: Mapping[str, str]


def heads_of(files: CheckpointFiles) -> dict[str, HeadFile]:
    """The heads of a checkpoint by name; `EngineError` for a file that is no head."""
    found = {}
    for name in HEADS:
        path = files.folder / f"{name}.safetensors"
        if path.is_file():
            found[name] = HeadFile((path,), "", _metadata(path, name))
    layers = files.config["text_config"].get("num_hidden_layers")
    spare = f"model.language_model.layers.{layers}."
    if "mtp" not in found and f"{spare}eh_proj.weight" in files.tensors:
        found["mtp"] = HeadFile(files.weight_files, spare, {})
    return found


def head_infos(heads: Mapping[str, HeadFile]) -> tuple[HeadInfo, ...]:
    """What strategies may know of them."""
    return tuple(HeadInfo(name) for name in heads)


def openers(heads: Mapping[str, HeadFile], files: CheckpointFiles) -> dict[str, OpenHead]:
    """By name, what reads a head when it is first needed."""

    def open_mtp(decoder: GlmDecoder) -> MtpHead:
        held = heads["mtp"]
        weights = _read(held, mtp_shapes(decoder.geometry), files, decoder)
        carry, zero = held.metadata.get("carry", "normed"), held.metadata.get("zero_first", "no")
        for key, value, known in (("carry", carry, ("normed", "raw")), ("zero_first", zero, ("yes", "no"))):
            if value not in known:
                raise EngineError(f"{held.paths[0]}: {key} is '{value}', expected {' or '.join(known)}")
        return MtpHead(decoder, weights, raw_carry=carry == "raw", zero_first=zero == "yes")

    return {name: {"mtp": open_mtp}[name] for name in heads}


def weights_digest(paths: Sequence[Path]) -> str:
    """sha256 over the bytes of the weight files of a checkpoint, in their order."""
    whole = hashlib.sha256()
    for path in paths:
        with path.open("rb") as stream:
            whole.update(hashlib.file_digest(stream, "sha256").digest())
    return whole.hexdigest()


def _metadata(path: Path, name: str) -> dict[str, str]:
    try:
        with safe_open(str(path), framework="pt") as opened:
            metadata = dict(opened.metadata() or {})
    except (SafetensorError, OSError) as error:
        raise EngineError(f"{path}: truncated or not a safetensors file ({error})", hint=COPY) from error
    said = metadata.get("format"), metadata.get("head")
    if said != (FORMAT, name):
        raise EngineError(f"{path}: format and head are {said}, expected {(FORMAT, name)}", hint=COPY)
    return metadata


def _read(
    held: HeadFile, shapes: Mapping[str, tuple[int, ...]], files: CheckpointFiles, decoder: GlmDecoder
) -> dict[str, Tensor]:
    """The tensors of a head on the decoder's device; `EngineError` for one that does not fit the model."""
    made_for = held.metadata.get("weights_sha256")
    if made_for is not None and made_for != (own := weights_digest(files.weight_files)):
        raise EngineError(
            f"{held.paths[0]}: made for the weights {made_for[:12]}, these are {own[:12]}", hint=OTHER
        )
    found: dict[str, Tensor] = {}
    for path in held.paths:
        with safe_open(str(path), framework="pt") as opened:
            there = set(opened.keys())
            for name in shapes:
                if held.prefix + name in there:
                    found[name] = opened.get_tensor(held.prefix + name)
    where = held.paths[0] if len(held.paths) == 1 else files.folder
    for name, shape in shapes.items():
        if name not in found:
            raise EngineError(f"{where}: tensor {held.prefix}{name} is missing from the head", hint=COPY)
        if tuple(found[name].shape) != shape or not found[name].is_floating_point():
            raise EngineError(
                f"{where}: tensor {held.prefix}{name} is {found[name].dtype} {list(found[name].shape)}, this "
                f"model takes floating-point numbers {list(shape)}",
                hint=OTHER,
            )
    moved = {name: tensor.to(decoder.device, decoder.dtype) for name, tensor in found.items()}
    refuse_non_finite(moved.items(), where, dtype=str(decoder.dtype).removeprefix("torch."))
    return moved


def save_head(path: Path, name: str, weights: Mapping[str, Tensor], **metadata: str) -> None:
    """Write a head file, in bfloat16."""
    from safetensors.torch import save_file

    stored = {key: tensor.detach().to("cpu", torch.bfloat16).contiguous() for key, tensor in weights.items()}
    part = path.with_name(f"{path.name}.part")
    save_file(stored, str(part), {"format": FORMAT, "head": name, **metadata})
    part.replace(path)
