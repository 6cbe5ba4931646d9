"""Prompt prefix, pixels and output text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from gravbench.backends.glm.request import PROMPTS, Prompter, read_pixels, strip_thinking
from gravbench.backends.transformers_local import TransformersLocal
from gravbench.errors import EngineError
from gravbench.records import TASKS, DecodeConfig, Request
from gravbench.workshop.training.checkpoints import build_tokenizer, prompt_ids


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return build_tokenizer()


def test_the_prompts_are_those_glm_ocr_was_trained_with() -> None:
    assert PROMPTS == {
        "text": "Text Recognition:",
        "table": "Table Recognition:",
        "formula": "Formula Recognition:",
    }


def test_the_prefix_is_the_one_training_used(tokenizer: Any) -> None:
    image = tokenizer.convert_tokens_to_ids("<|image|>")
    prompter = Prompter(tokenizer, image_token_id=image)
    for task in TASKS:
        assert prompter.prefix(PROMPTS[task], image_tokens=5) == prompt_ids(tokenizer, task, image_tokens=5)


def test_without_a_chat_template_the_turn_of_glm_ocr_is_used(tokenizer: Any) -> None:
    image = tokenizer.convert_tokens_to_ids("<|image|>")
    with_template = Prompter(tokenizer, image_token_id=image).prefix(PROMPTS["table"], image_tokens=2)
    bare = build_tokenizer()
    bare.chat_template = None
    assert Prompter(bare, image_token_id=image).prefix(PROMPTS["table"], image_tokens=2) == with_template


def test_a_template_without_an_image_is_refused() -> None:
    tokenizer = build_tokenizer()
    tokenizer.chat_template = "{{ messages[0].role }}"
    with pytest.raises(EngineError, match="0 image tokens"):
        Prompter(tokenizer, image_token_id=tokenizer.convert_tokens_to_ids("<|image|>"))


def test_a_request_may_bring_a_prompt_of_its_own(
    backend: TransformersLocal, make_request: Callable[..., Request]
) -> None:
    asked = make_request(variant=0, task="table")
    other = asked.model_copy(update={"prompt": "Formula Recognition:"})
    decode = DecodeConfig(strategy="ar", max_new_tokens=24)
    own = backend.generate(asked.model_copy(update={"prompt": PROMPTS["table"]}), decode)
    formula = backend.generate(make_request(variant=0, task="formula"), decode)
    assert backend.generate(asked, decode).token_ids == own.token_ids
    assert backend.generate(other, decode).token_ids == formula.token_ids != own.token_ids


def test_patches_cover_the_image(backend: TransformersLocal, make_request: Callable[..., Request]) -> None:
    processor = backend.step_model._loaded.image_processor
    pixels = read_pixels(make_request(variant=0), processor)
    assert len(pixels.patches) == int(pixels.grid.prod()) == 4 * pixels.image_tokens
    assert pixels.patches.dtype is torch.float32


def test_the_processor_of_a_patch_14_checkpoint_is_read_as_it_is(tmp_path: Path) -> None:
    from transformers.models.glm46v.image_processing_pil_glm46v import Glm46VImageProcessorPil

    from gravbench.backends.glm.request import open_image_processor

    Glm46VImageProcessorPil().save_pretrained(tmp_path)
    assert open_image_processor(tmp_path).patch_size == 14


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<think></think>\nabc", "abc"),
        (" \n<think>why\nnot</think> abc", "abc"),
        ("abc <think>x</think>", "abc <think>x</think>"),
        ("<think>never closed", "<think>never closed"),
        ("", ""),
    ],
)
def test_only_a_leading_closed_scaffold_is_stripped(text: str, expected: str) -> None:
    assert strip_thinking(text) == expected


def test_a_template_that_does_not_render_is_an_engine_error() -> None:
    tokenizer = build_tokenizer()
    tokenizer.chat_template = "{% for %}"
    with pytest.raises(EngineError, match="does not render"):
        Prompter(tokenizer, image_token_id=1)
