"""The same decoder on a CUDA device: same ids as the CPU in float32, selfspec as AR."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from PIL import Image, ImageDraw

from gravbench.backends.forward_cost import measure
from gravbench.backends.transformers_local import TransformersLocal
from gravbench.records import DecodeConfig, Request
from gravbench.workshop.training.checkpoints import MICRO, write_initial_checkpoint

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("glm")
    write_initial_checkpoint(folder / "micro", shape=MICRO, seed=1)
    image = Image.new("RGB", (160, 32), "white")
    ImageDraw.Draw(image).text((4, 8), "line 1 abc", fill="black")
    image.save(folder / "line.png")
    return folder


def ids(backend: TransformersLocal, folder: Path, strategy: str) -> tuple[int, ...]:
    request = Request(
        request_id="r", sample_id="s", task="text", image_path=str(folder / "line.png"), max_new_tokens=48
    )
    return backend.generate(request, DecodeConfig(strategy=strategy, max_new_tokens=48)).token_ids


def test_float32_ids_are_those_of_the_cpu_under_every_strategy(folder: Path) -> None:
    expected = ids(TransformersLocal(folder / "micro"), folder, "ar")
    device = TransformersLocal(folder / "micro", device="cuda")
    for strategy in ("ar", "selfspec", "selfspec:block=32", "selfspec:legacy=1"):
        assert ids(device, folder, strategy) == expected


def test_recorded_forwards_give_the_same_ids(folder: Path) -> None:
    plain = TransformersLocal(folder / "micro", device="cuda")
    graphs = TransformersLocal(folder / "micro", device="cuda", cuda_graphs=True)
    for strategy in ("ar", "selfspec", "selfspec:block=32"):
        expected = ids(plain, folder, strategy)
        for _ in range(3):  # unrecorded, then replayed
            assert ids(graphs, folder, strategy) == expected


def test_forward_cost_is_measured_on_the_device(folder: Path) -> None:
    costs = measure(folder / "micro", device="cuda", repetitions=3)
    assert all(cost.seconds > 0 for cost in costs)
