"""One request -> prefix token ids and pixel patches, and the image processor that makes those.

Faults of a request belong to its sample, not to the engine; those of the processor's settings to its folder.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from gravbench.backends.glm.checkpoint import stated_settings
from gravbench.decoding.protocols import RequestError
from gravbench.errors import DataError, EngineError
from gravbench.imaging import load_image
from gravbench.records import Request, Task

PROMPTS: dict[Task, str] = {
    "text": "Text Recognition:",
    "table": "Table Recognition:",
    "formula": "Formula Recognition:",
}
"""What this family was trained on: used where a request brings no prompt of its own."""

_TEMPLATE = "[gMASK]<sop><|user|>\n<|begin_of_image|><|image|><|end_of_image|>{prompt}<|assistant|>\n"
"""GLM-OCR's turn with one image, for a tokenizer that carries no chat template."""

_AGREED = {
    "patch_size": "patch_size",
    "merge_size": "spatial_merge_size",
    "temporal_patch_size": "temporal_patch_size",
}
"""Processor setting -> field of the vision config that must have the same value."""

_COPY = "Copy this file from the checkpoint again."
_THINKING = re.compile(r"\A\s*<think>.*?</think>\s*", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pixels:
    """patches [N, channels * frames * patch * patch], float32; grid [1, 3] = frames, rows, columns."""

    patches: torch.Tensor
    grid: torch.Tensor
    image_tokens: int


def prompt_of(request: Request) -> str:
    """What a request asks: its own prompt, else the one of its task."""
    return PROMPTS[request.task] if request.prompt is None else request.prompt


class Prompter:
    """Prefix ids by prompt, each built once; only the number of image tokens differs between requests."""

    def __init__(self, tokenizer: Any, *, image_token_id: int) -> None:
        self._tokenizer, self._image_token_id = tokenizer, image_token_id
        self._templates: dict[str, list[int]] = {}
        for prompt in PROMPTS.values():
            self._template(prompt)

    def prefix(self, prompt: str, *, image_tokens: int) -> list[int]:
        """Ids of the turn that asks `prompt`, its one image token repeated `image_tokens` times."""
        ids = self._template(prompt)
        at = ids.index(self._image_token_id)
        return [*ids[:at], *[self._image_token_id] * image_tokens, *ids[at + 1 :]]

    def _template(self, prompt: str) -> list[int]:
        if prompt not in self._templates:
            ids = _template_ids(self._tokenizer, prompt)
            count = ids.count(self._image_token_id)
            if count != 1:
                raise EngineError(f"chat template: prompt {prompt!r} gives {count} image tokens, expected 1")
            self._templates[prompt] = ids
        return self._templates[prompt]


def _template_ids(tokenizer: Any, prompt: str) -> list[int]:
    return list(tokenizer.encode(turn_text(tokenizer, prompt), add_special_tokens=False))


def turn_text(tokenizer: Any, prompt: str) -> str:
    """The user's turn with one image that asks `prompt`, up to where the answer begins."""
    if getattr(tokenizer, "chat_template", None):
        message = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": prompt}]}
        try:
            return str(tokenizer.apply_chat_template([message], tokenize=False, add_generation_prompt=True))
        except Exception as error:  # a template is a program of the checkpoint's author
            raise EngineError(f"chat template: does not render ({error})") from error
    return _TEMPLATE.format(prompt=prompt)


def open_image_processor(folder: Path) -> Any:
    """The processor's PIL version, which needs no torchvision."""
    from transformers.models.glm46v.image_processing_pil_glm46v import Glm46VImageProcessorPil

    return Glm46VImageProcessorPil.from_pretrained(str(folder), local_files_only=True)


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


def read_pixels(request: Request, processor: Any) -> Pixels:
    """Open, resize, normalise and cut the image into patches; `RequestError` when that cannot be done."""
    path = request.image_path
    try:
        image = load_image(path).convert("RGB")
        prepared = processor(images=[image], return_tensors="pt")
    except DataError as error:
        raise RequestError(" ".join(error.message.split())) from error
    except ValueError as error:
        raise RequestError(f"{path}: {image.width} x {image.height} pixels: {error}") from error
    grid = prepared["image_grid_thw"]
    return Pixels(
        patches=prepared["pixel_values"],
        grid=grid,
        image_tokens=int(grid.prod()) // processor.merge_size**2,
    )


def strip_thinking(text: str) -> str:
    """`text` without a leading `<think>...</think>` scaffold; an unclosed one is left as it is."""
    return _THINKING.sub("", text, count=1)
