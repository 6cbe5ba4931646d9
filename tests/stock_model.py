"""The model class of transformers as an oracle, with the names that differ between its versions."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import torch

from gravbench.backends.glm.request import prompt_of, read_pixels
from gravbench.backends.glm.step_model import GlmStepModel
from gravbench.records import Request


def stock_model(folder: Path) -> Any:
    from transformers import GlmOcrForConditionalGeneration

    return GlmOcrForConditionalGeneration.from_pretrained(
        str(folder), dtype=torch.float32, attn_implementation="sdpa"
    ).eval()


def cache_of(outputs: Any) -> Any:
    """Transformers names the field `cache` from 5.24 on."""
    return outputs.cache if "cache" in outputs else outputs.past_key_values


def cache_keyword() -> str:
    """The same name as an argument; the signature hides it behind decorators."""
    from transformers import GlmOcrForConditionalGeneration

    forward = inspect.unwrap(GlmOcrForConditionalGeneration.forward)
    return "cache" if "cache" in inspect.signature(forward).parameters else "past_key_values"


def stock_inputs(step: GlmStepModel, stock: Any, ask: Request) -> dict[str, torch.Tensor]:
    """The prefix of a request as the stock model takes it."""
    pixels = read_pixels(ask, step._loaded.image_processor)
    ids = torch.tensor([step._prompter.prefix(prompt_of(ask), image_tokens=pixels.image_tokens)])
    return {
        "input_ids": ids,
        "pixel_values": pixels.patches,
        "image_grid_thw": pixels.grid,
        "mm_token_type_ids": (ids == stock.config.image_token_id).int(),
    }
