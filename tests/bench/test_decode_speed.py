"""Decode-only speed of `ar` against transformers' `generate`, at the size of the shipped model.

Both decode the same request on one thread, interleaved; the time of the same request with one new
token is subtracted on both sides, and transformers has the faster of its two caches. Minima of several
repetitions, since anything else on the machine only adds time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image, ImageDraw

from gravbench.backends.glm.request import prompt_of, read_pixels
from gravbench.backends.transformers_local import TransformersLocal
from gravbench.records import DecodeConfig, Request
from gravbench.workshop.training.checkpoints import TINY, write_initial_checkpoint

NEW_TOKENS = 64
REPETITIONS = 5
FLOOR = 1.5

pytestmark = pytest.mark.bench


@pytest.fixture(autouse=True)
def only_when_benchmarks_are_enabled(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("benchmark_enable"):
        pytest.skip("ratios of wall-clock time are measured by `tox -e bench` only")


def seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def generate_call(model: Any, inputs: dict[str, torch.Tensor], *, static: bool) -> Callable[[int], list[int]]:
    extra = {"cache_implementation": "static", "disable_compile": True} if static else {}

    def call(new_tokens: int) -> list[int]:
        out = model.generate(
            **inputs, do_sample=False, max_new_tokens=new_tokens, min_new_tokens=new_tokens, **extra
        )
        return out[0, inputs["input_ids"].shape[1] :].tolist()  # type: ignore[no-any-return]

    return call


def test_ar_decodes_at_least_half_again_as_fast_as_generate(tmp_path: Path) -> None:
    from transformers import GlmOcrForConditionalGeneration

    write_initial_checkpoint(tmp_path / "tiny", shape=TINY, seed=5)
    image = Image.new("RGB", (480, 48), "white")
    ImageDraw.Draw(image).text((6, 12), "The quick brown fox jumps over the lazy dog", fill="black")
    image.save(tmp_path / "line.png")
    request = Request(
        request_id="r",
        sample_id="s",
        task="text",
        image_path=str(tmp_path / "line.png"),
        max_new_tokens=NEW_TOKENS,
    )
    backend = TransformersLocal(tmp_path / "tiny", threads=1)
    step = backend.step_model
    pixels = read_pixels(request, step._loaded.image_processor)
    ids = torch.tensor([step._prompter.prefix(prompt_of(request), image_tokens=pixels.image_tokens)])
    model = GlmOcrForConditionalGeneration.from_pretrained(
        str(tmp_path / "tiny"), dtype=torch.float32, attn_implementation="sdpa"
    ).eval()
    inputs = {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "pixel_values": pixels.patches,
        "image_grid_thw": pixels.grid,
        "mm_token_type_ids": (ids == model.config.image_token_id).int(),
    }

    def ours(new_tokens: int) -> list[int]:
        decode = DecodeConfig(strategy="ar", max_new_tokens=new_tokens)
        return list(backend.generate(request, decode).token_ids)

    arms = {
        "ar": ours,
        "dynamic": generate_call(model, inputs, static=False),
        "static": generate_call(model, inputs, static=True),
    }
    assert ours(NEW_TOKENS) == arms["dynamic"](NEW_TOKENS)  # equal work; also the warm-up
    best = {(arm, n): float("inf") for arm in arms for n in (1, NEW_TOKENS)}
    for _ in range(REPETITIONS):
        for arm, call in arms.items():
            for n in (1, NEW_TOKENS):
                best[arm, n] = min(best[arm, n], seconds(lambda call=call, n=n: call(n)))  # type: ignore[misc]
    decode_s = {arm: best[arm, NEW_TOKENS] - best[arm, 1] for arm in arms}
    ratio = min(decode_s["dynamic"], decode_s["static"]) / decode_s["ar"]
    listed = ", ".join(f"{arm} {1000 * s / (NEW_TOKENS - 1):.2f} ms" for arm, s in decode_s.items())
    print(f"\nper token: {listed}; ratio {ratio:.2f}")
    assert ratio >= FLOOR, listed
