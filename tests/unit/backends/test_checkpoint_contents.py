"""What a checkpoint holds beside what is computed with: refused where text would be wrong, else named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from gravbench.backends.checkpoint_contents import unapplied_settings, unread_tensors
from gravbench.backends.transformers_local import TransformersLocal
from gravbench.errors import EngineError
from gravbench.records import DecodeConfig, Request

Weights = dict[str, torch.Tensor]
QUERY = "model.language_model.layers.0.self_attn.q_proj"


def edit_weights(folder: Path, edit: Callable[[Weights], object]) -> None:
    path = folder / "model.safetensors"
    weights = load_file(path)
    edit(weights)
    save_file(weights, path, metadata={"format": "pt"})


def refusal(folder: Path) -> str:
    with pytest.raises(EngineError) as caught:
        TransformersLocal(folder)
    return caught.value.whole


def quantise(weights: Weights) -> None:
    scale = weights[f"{QUERY}.weight"].abs().max() / 127
    weights[f"{QUERY}.weight"] = (weights[f"{QUERY}.weight"] / scale).round().to(torch.int8)
    weights[f"{QUERY}.weight_scale"] = scale.reshape(1)


@pytest.mark.parametrize(
    "name", ["lora_A.weight", "lora_B.default.weight", "ia3_l.weight", "adapter.down.weight"]
)
def test_tensors_of_an_adapter_are_refused_with_their_count(broken: Path, name: str) -> None:
    edit_weights(broken, lambda w: w.update({f"{QUERY}.{name}": torch.zeros(2, 2)}))
    said = refusal(broken)
    assert (
        f"model.safetensors: 1 tensor of an adapter, which is not applied here, first {QUERY}.{name}" in said
    )
    assert "merge_and_unload" in said


@pytest.mark.parametrize("name", ["adapter_model.safetensors", "adapter_model.bin", "adapter_config.json"])
def test_a_folder_of_an_adapter_alone_names_it_and_the_way(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"{}")
    said = refusal(tmp_path)
    assert f"{name}: an adapter" in said and "merge_and_unload" in said


def test_an_adapter_beside_the_weights_is_refused(broken: Path) -> None:
    (broken / "adapter_config.json").write_text("{}")
    assert "adapter_config.json: an adapter" in refusal(broken)


def test_quantised_weights_are_refused_with_type_and_scales(broken: Path) -> None:
    edit_weights(broken, quantise)
    said = refusal(broken)
    assert (
        f"1 tensor of scales, first {QUERY}.weight_scale; 1 tensor of type I8, first {QUERY}.weight" in said
    )
    assert "dequantised" in said


def test_a_quantisation_that_config_states_is_refused(broken: Path) -> None:
    config = json.loads((broken / "config.json").read_text())
    (broken / "config.json").write_text(
        json.dumps(config | {"quantization_config": {"quant_method": "gptq"}})
    )
    assert "config.json: quantization_config is gptq" in refusal(broken)


@pytest.mark.parametrize("part", ["text_config", "vision_config"])
def test_a_quantisation_that_a_part_of_config_states_is_refused(broken: Path, part: str) -> None:
    config = json.loads((broken / "config.json").read_text())
    config[part]["quantization_config"] = {"quant_method": "awq"}
    (broken / "config.json").write_text(json.dumps(config))
    assert f"config.json: {part}.quantization_config is awq" in refusal(broken)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_weight_that_is_not_finite_is_refused_by_name(broken: Path, value: float) -> None:
    edit_weights(broken, lambda w: w[f"{QUERY}.weight"][0].fill_(value))
    said = refusal(broken)
    assert f"1 tensor with numbers that are not finite in float32, first {QUERY}.weight" in said


def test_a_weight_that_only_the_dtype_of_the_run_overflows_is_refused(broken: Path) -> None:
    edit_weights(broken, lambda w: w[f"{QUERY}.weight"][0].fill_(1e6))
    TransformersLocal(broken)
    with pytest.raises(EngineError, match=r"not finite in float16.*") as caught:
        TransformersLocal(broken, dtype="float16")
    assert "--dtype float32" in caught.value.whole


def test_spare_layers_and_unread_tensors_are_a_warning_with_their_count(broken: Path) -> None:
    spare = {f"model.language_model.layers.{n}.mlp.up.weight": torch.zeros(1) for n in (16, 17)}
    edit_weights(broken, lambda w: w.update(spare | {"projector.bias": torch.zeros(3)}))
    layers, others = TransformersLocal(broken).describe().warnings
    assert layers.startswith("weights: decoder layers 16, 17 of the files (2 tensors) beyond the 2 layers")
    assert others == "weights: 1 tensor of the files not used, first projector.bias"


def test_a_whole_checkpoint_has_nothing_unread(checkpoint: Path) -> None:
    assert TransformersLocal(checkpoint).describe().warnings == ()


def test_settings_that_would_change_the_text_are_a_warning(broken: Path) -> None:
    path = broken / "generation_config.json"
    stated = json.loads(path.read_text())
    path.write_text(json.dumps(stated | {"repetition_penalty": 1.3, "do_sample": True, "temperature": 0.7}))
    (said,) = TransformersLocal(broken).describe().warnings
    assert said == (
        "generation_config.json: not applied, since a strategy draws only as its own options say: "
        "do_sample true, repetition_penalty 1.3"
    )


def test_settings_that_leave_greedy_text_alone_are_no_warning(tmp_path: Path) -> None:
    path = tmp_path / "generation_config.json"
    neutral = {"repetition_penalty": 1.0, "do_sample": False, "num_beams": 1, "top_p": 0.9, "min_length": 0}
    path.write_text(json.dumps(neutral | {"no_repeat_ngram_size": None}))
    assert unapplied_settings(path) == ()


def test_tensors_of_other_stacks_are_no_spare_layers() -> None:
    (said,) = unread_tensors(["model.visual.layers.99.weight"], known=(), layers=2)
    assert said == "weights: 1 tensor of the files not used, first model.visual.layers.99.weight"


def test_another_kind_of_model_is_told_which_way_remains(broken: Path) -> None:
    config = json.loads((broken / "config.json").read_text())
    (broken / "config.json").write_text(json.dumps(config | {"model_type": "qwen2_vl"}))
    said = refusal(broken)
    assert "model_type is 'qwen2_vl', expected 'glm_ocr'" in said
    assert "gravbench omnidoc --gt OmniDocBench.json --predictions DIR" in said


def test_logits_that_overflow_stop_the_run(broken: Path, make_request: Callable[..., Request]) -> None:
    edit_weights(broken, lambda w: w["model.language_model.norm.weight"].fill_(3e38))
    decode = DecodeConfig(strategy="ar", max_new_tokens=8)
    with pytest.raises(EngineError, match=r"sample 0: logits after the prefill are not finite in float32"):
        TransformersLocal(broken).generate(make_request(), decode)
