"""Small random checkpoints in the real file format; wide weights, so tokens vary and margins are wide."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image, ImageDraw
from transformers import GlmOcrConfig

from gravbench.backends.glm.checkpoint import HEADS
from gravbench.backends.glm.decoder import Geometry
from gravbench.backends.glm.heads import save_head
from gravbench.backends.glm.mtp import mtp_shapes
from gravbench.backends.transformers_local import TransformersLocal
from gravbench.records import Request, Task
from gravbench.workshop.training.checkpoints import (
    MICRO,
    build_tokenizer,
    make_config,
    make_image_processor,
    write_checkpoint,
)


def write_random_checkpoint(folder: Path, *, seed: int, edit: Callable[[Any], None] = lambda _: None) -> None:
    """A two-layer model; `edit` may change the config before the model is built."""
    from transformers import GlmOcrForConditionalGeneration

    tokenizer = build_tokenizer()
    config = make_config(MICRO, tokenizer)
    edit(config)
    torch.manual_seed(seed)
    model = GlmOcrForConditionalGeneration(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.add_(0.3 * torch.randn_like(parameter))
            else:
                parameter.normal_(std=1.0 if "embed_tokens" in name or "lm_head" in name else 0.25)
    write_checkpoint(folder, model, tokenizer, make_image_processor(MICRO), block=8)


def write_random_head(folder: Path, name: str, **metadata: str) -> Path:
    """A random head beside a checkpoint; the path of its file."""
    config = GlmOcrConfig.from_pretrained(folder).text_config
    heads, width = config.num_attention_heads, config.hidden_size
    geometry = Geometry(
        width=width,
        heads=heads,
        kv_heads=config.num_key_value_heads,
        head_dim=getattr(config, "head_dim", None) or width // heads,
        mlp=config.intermediate_size,
        vocab=config.vocab_size,
        eps=config.rms_norm_eps,
    )
    drawn = torch.Generator().manual_seed(3)
    weights = {
        key: torch.randn(shape, generator=drawn) * (0.25 if len(shape) > 1 else 0.3) + (len(shape) == 1)
        for key, shape in mtp_shapes(geometry).items()
    }
    save_head(folder / f"{name}.safetensors", name, weights, **metadata)
    return folder / f"{name}.safetensors"


def grouped_heads_and_partial_rotation(config: Any) -> None:
    """The features of larger checkpoints that the small one lacks."""
    config.text_config.num_attention_heads = 4
    config.text_config.num_key_value_heads = 2
    config.text_config.rope_parameters["partial_rotary_factor"] = 0.5
    config.text_config.rope_parameters["mrope_section"] = [1, 1, 2]


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Same head counts as gravity-tiny. Read only; copy it to break it."""
    folder = tmp_path_factory.mktemp("glm") / "micro"
    write_random_checkpoint(folder, seed=6)
    return folder


@pytest.fixture(scope="session")
def grouped_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("glm") / "grouped"
    write_random_checkpoint(folder, seed=2, edit=grouped_heads_and_partial_rotation)
    return folder


@pytest.fixture
def broken(checkpoint: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(checkpoint, tmp_path / "broken"))


@pytest.fixture(scope="session")
def backend(checkpoint: Path) -> TransformersLocal:
    return TransformersLocal(checkpoint)


@pytest.fixture(scope="session")
def headed_backend(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> TransformersLocal:
    """The small checkpoint with a random head of every kind."""
    folder = tmp_path_factory.mktemp("headed") / "micro"
    shutil.copytree(checkpoint, folder)
    for name in HEADS:
        write_random_head(folder, name)
    return TransformersLocal(folder)


@pytest.fixture(scope="session")
def make_request(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Request]:
    """A request over a drawn line; `variant` changes image size and text."""
    folder = tmp_path_factory.mktemp("images")

    def make(*, variant: int = 0, task: Task = "text", budget: int = 64) -> Request:
        path = folder / f"{variant}.png"
        if not path.exists():
            image = Image.new("RGB", (120 + 37 * variant, 32 + 9 * variant), "white")
            ImageDraw.Draw(image).text((4, 8), f"line {variant * 977} abc", fill="black")
            image.save(path)
        return Request(
            request_id=f"{variant}#{task}",
            sample_id=str(variant),
            task=task,
            image_path=str(path),
            max_new_tokens=budget,
        )

    return make
