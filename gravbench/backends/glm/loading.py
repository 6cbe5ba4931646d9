"""Checkpoint folder -> the stock transformers objects; names that differ between versions stay here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from gravbench.backends.checkpoint_contents import (
    refuse_non_finite,
    refuse_unlike_tensors,
    unapplied_settings,
    unread_tensors,
)
from gravbench.backends.glm.checkpoint import GENERATION_CONFIG, CheckpointFiles, read_end_tokens
from gravbench.backends.glm.request import check_image_processor, open_image_processor
from gravbench.backends.hub import quiet_transformers
from gravbench.errors import EngineError


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """Model in eval mode on its device, tokenizer, torchvision-free image processor."""

    model: Any
    tokenizer: Any
    image_processor: Any
    eos_token_ids: tuple[int, ...]
    warnings: tuple[str, ...]
    """What the folder holds and the engine does not use."""


class PatchProjection(torch.nn.Module):
    """The patch embedding as one matrix product.

    Its kernel equals its stride, so the Conv3d of the stock class is this product; convolution
    libraries take up to minutes for it on full pages.
    """

    def __init__(self, convolution: torch.nn.Conv3d) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(convolution.weight.detach().flatten(1), requires_grad=False)
        bias = convolution.bias
        self.bias = None if bias is None else torch.nn.Parameter(bias.detach(), requires_grad=False)

    def forward(self, patches: torch.Tensor) -> torch.Tensor:
        """[patches, channels * frames * patch * patch] -> [patches, width]."""
        return torch.nn.functional.linear(patches.to(self.weight.dtype), self.weight, self.bias)


def load(files: CheckpointFiles, *, device: torch.device, dtype: torch.dtype) -> Loaded:
    """Load everything from `files.folder` alone; `EngineError` when weights do not fill the model."""
    from transformers import AutoTokenizer, GlmOcrForConditionalGeneration

    folder = str(files.folder)
    end_tokens = read_end_tokens(files)
    try:
        with quiet_transformers():
            model, info = GlmOcrForConditionalGeneration.from_pretrained(
                folder,
                dtype=dtype,
                attn_implementation="sdpa",
                use_safetensors=True,
                trust_remote_code=False,
                local_files_only=True,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # refused below, by name
            )
            model = model.to(device).eval()
            tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
            image_processor = open_image_processor(files.folder)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # the loader raises whatever a broken file leads it to
        line = " ".join(str(error).split())[:300]
        raise EngineError(
            f"{folder}: the checkpoint does not load ({type(error).__name__}: {line})"
        ) from error
    refuse_unlike_tensors(info, files.folder)
    refuse_non_finite(model.named_parameters(), files.folder, dtype=str(dtype).removeprefix("torch."))
    layers = model.config.text_config.num_hidden_layers
    warnings = (
        *unread_tensors(files.tensors, known=_read_or_renamed(model, info, files), layers=layers),
        *unapplied_settings(files.folder / GENERATION_CONFIG),
    )
    check_image_processor(image_processor, model.config.vision_config, folder=files.folder)
    visual = model.model.visual
    visual.patch_embed = PatchProjection(visual.patch_embed.proj)
    return Loaded(
        model=model,
        tokenizer=tokenizer,
        image_processor=image_processor,
        eos_token_ids=end_tokens.ids,
        warnings=warnings,
    )


def _read_or_renamed(model: Any, info: Mapping[str, Any], files: CheckpointFiles) -> frozenset[str]:
    """Tensors of the files that the model has, under their own name or one the loader knows them by.

    What the loader itself calls unexpected is read by nothing, nor is what its class tells it to pass over.
    """
    own = set(model.state_dict())
    passed_over = [re.compile(p) for p in getattr(model, "_keys_to_ignore_on_load_unexpected", None) or ()]
    unread = set(info["unexpected_keys"]) | {
        name for name in files.tensors if any(pattern.search(name) for pattern in passed_over)
    }
    return frozenset(name for name in files.tensors if name in own or name not in unread)


def encode_image(model: Any, pixel_values: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
    """Image tokens [merged patches, text width] of one image."""
    features = model.model.get_image_features(pixel_values, grid, return_dict=True)
    return torch.cat(tuple(features.pooler_output), dim=0)


def prefix_positions(
    model: Any, ids: torch.Tensor, image_mask: torch.Tensor, grid: torch.Tensor
) -> torch.Tensor:
    """M-RoPE positions [3, P] of a prefix, by the model's own rope index function.

    ids [P]; image_mask [P], true on image tokens; grid [1, 3].
    """
    positions, _ = model.model.get_rope_index(
        input_ids=ids[None], mm_token_type_ids=image_mask[None].int(), image_grid_thw=grid
    )
    return positions[:, 0]  # type: ignore[no-any-return]
