"""The image processor of a checkpoint, and whether it cuts images into the patches the model takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from PIL import Image

from gravbench.backends.glm.checkpoint import IMAGE_CONFIGS, read_json
from gravbench.errors import EngineError

SETTINGS = ("patch_size", "merge_size", "temporal_patch_size", "size", "image_mean", "image_std")
"""What the processor would silently fill in with its own defaults."""

_AGREED = {
    "patch_size": "patch_size",
    "merge_size": "spatial_merge_size",
    "temporal_patch_size": "temporal_patch_size",
}
"""Processor setting -> field of the vision config that must have the same value."""

_COPY = "Copy this file from the checkpoint again."


def open_image_processor(folder: Path) -> Any:
    """The processor's PIL version, which needs no torchvision."""
    from transformers.models.glm46v.image_processing_pil_glm46v import Glm46VImageProcessorPil

    return Glm46VImageProcessorPil.from_pretrained(str(folder), local_files_only=True)


def stated_settings(folder: Path) -> tuple[Path, dict[str, Any]]:
    """The file the processor reads its settings from, and what stands there."""
    plain, nested = (folder / name for name in IMAGE_CONFIGS)
    if nested.is_file():
        inner = read_json(nested).get("image_processor")
        if isinstance(inner, dict):
            return nested, inner
    path = plain if plain.is_file() else nested
    return path, read_json(path)


def check_image_processor(processor: Any, vision_config: Any, *, folder: Path) -> None:
    """`EngineError` unless the processor makes the patches that the vision tower was built for.

    A small blank image goes through it, so that a setting which would fail every sample fails here.
    """
    path, stated = stated_settings(folder)
    for name, field in _AGREED.items():
        found, wanted = getattr(processor, name, None), _single(getattr(vision_config, field))
        if found != wanted:
            origin = "" if name in stated else " (not stated, so by default)"
            raise EngineError(
                f"{path}: {name} is {found!r}{origin}, but config.json: vision_config.{field} is {wanted!r}",
                hint=_COPY,
            )
    width = vision_config.in_channels * processor.temporal_patch_size * processor.patch_size**2
    try:
        prepared = processor(images=[Image.new("RGB", (150, 60), "white")], return_tensors="pt")
        made = tuple(prepared["pixel_values"].shape)
        tokens = int(prepared["image_grid_thw"].prod())
    except Exception as error:  # a wrong setting fails wherever the processor first uses it
        line = " ".join(str(error).split())[:200]
        raise EngineError(
            f"{path}: an image cannot be prepared with these settings ({type(error).__name__}: {line})",
            hint=_COPY,
        ) from error
    if made != (tokens, width):
        raise EngineError(
            f"{path}: an image becomes patches of shape {made}, the model takes {(tokens, width)}", hint=_COPY
        )


def _single(size: Any) -> Any:
    """`[14, 14]` is another way to write 14."""
    return size[0] if isinstance(size, list | tuple) and len(set(size)) == 1 else size
