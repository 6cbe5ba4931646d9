"""Take a checkpoint into training: ours, or any GLM-OCR folder that has no mask token yet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from gravbench.backends.glm.image_processor import open_image_processor
from gravbench.backends.loaded_tensors import refuse_unlike_tensors
from gravbench.backends.quiet import quiet_transformers
from gravbench.errors import EngineError
from gravbench.workshop.training.initial import write_checkpoint
from gravbench.workshop.training.vocabulary import MASK


def load_for_training(folder: Path, dtype: torch.dtype) -> tuple[Any, Any, Any]:
    """Model in training mode, tokenizer and image processor of a checkpoint folder; safetensors only.

    Raises `EngineError` when the folder is not a readable GLM-OCR checkpoint.
    """
    from transformers import AutoTokenizer, GlmOcrForConditionalGeneration

    for name in ("config.json", "tokenizer_config.json", "preprocessor_config.json"):
        if not (folder / name).is_file():
            raise EngineError(
                f"{folder}: {name} is missing, expected a GLM-OCR checkpoint folder",
                hint="give --init a folder saved by transformers, or leave it out to start from nothing",
            )
    try:
        with quiet_transformers():
            model, info = GlmOcrForConditionalGeneration.from_pretrained(
                str(folder),
                dtype=dtype,
                local_files_only=True,
                use_safetensors=True,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # refused below, by name
            )
            tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
            processor = open_image_processor(folder)
    except Exception as error:
        raise EngineError(
            f"{folder}: cannot be loaded ({_first_line(error)})", hint="check the files"
        ) from error
    refuse_unlike_tensors(info, folder)
    return model.train(), tokenizer, processor


def adopt_checkpoint(source: Path, target: Path, *, block: int) -> None:
    """Copy `source` into `target` as a checkpoint that can draft.

    Without a `<|mask|>` token one is appended; its embedding is drawn from the mean and deviation of the
    table (as GravityOCR does), so it starts as a plausible but unused word.
    """
    model, tokenizer, processor = load_for_training(source, torch.float32)
    if MASK not in tokenizer.get_vocab():
        tokenizer.add_special_tokens(
            {"additional_special_tokens": [MASK]}, replace_extra_special_tokens=False
        )
        mask = tokenizer.convert_tokens_to_ids(MASK)
        table = model.get_input_embeddings().weight
        if mask >= len(table):
            model.resize_token_embeddings(mask + 1, mean_resizing=False)
            table = model.get_input_embeddings().weight
        with torch.no_grad():
            known = table[:mask]
            noise = torch.randn(known.shape[1], generator=torch.Generator().manual_seed(0))
            table[mask] = known.mean(0) + noise * known.std(0)
    write_checkpoint(target, model, tokenizer, processor, block=block)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
