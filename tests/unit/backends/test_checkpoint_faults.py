"""A checkpoint whose files contradict each other fails while loading, naming file, field and value."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from gravbench.backends.glm.checkpoint import assumptions, read_checkpoint, read_end_tokens
from gravbench.backends.transformers_local import TransformersLocal
from gravbench.errors import EngineError
from gravbench.workshop.training.checkpoints import build_tokenizer

Edit = Callable[[dict[str, Any]], object]


def edit_json(path: Path, edit: Edit) -> None:
    document = json.loads(path.read_text())
    edit(document)
    path.write_text(json.dumps(document))


# --- end tokens -----------------------------------------------------------------------------------


@pytest.mark.parametrize("eos", ["a", True, [True], -1, [3, -1], 10**6, [10**6], [], [[3]], 3.0, {"id": 3}])
@pytest.mark.parametrize("name", ["generation_config.json", "config.json"])
def test_an_end_token_that_is_no_token_is_named(broken: Path, name: str, eos: object) -> None:
    if name == "config.json":
        (broken / "generation_config.json").unlink()
        edit_json(broken / name, lambda d: d["text_config"].update(eos_token_id=eos))
    else:
        edit_json(broken / name, lambda d: d.update(eos_token_id=eos))
    with pytest.raises(EngineError, match=r"eos_token_id is .*expected a token id from 0 to") as caught:
        TransformersLocal(broken)
    assert str(broken / name) in caught.value.message
    assert str(eos) in caught.value.message


def test_one_end_token_or_a_list_is_read_and_the_generation_config_wins(broken: Path) -> None:
    edit_json(broken / "generation_config.json", lambda d: d.update(eos_token_id=7))
    assert read_end_tokens(read_checkpoint(broken)).ids == (7,)
    edit_json(broken / "generation_config.json", lambda d: d.update(eos_token_id=None))
    edit_json(broken / "config.json", lambda d: d["text_config"].update(eos_token_id=[8, 9]))
    assert read_end_tokens(read_checkpoint(broken)).ids == (8, 9)


# --- weights --------------------------------------------------------------------------------------


def test_a_tensor_of_another_shape_is_named_with_both_shapes(broken: Path) -> None:
    from safetensors.torch import load_file, save_file

    path = broken / "model.safetensors"
    tensors = load_file(path)
    name = next(n for n in sorted(tensors) if "down_proj" in n)
    rows, columns = tensors[name].shape
    tensors[name] = torch.zeros(rows - 1, columns)
    save_file(tensors, path, metadata={"format": "pt"})
    with pytest.raises(EngineError) as caught:
        TransformersLocal(broken)
    assert f"{name} has shape [{rows - 1}, {columns}], config.json makes it [{rows}, {columns}]" in str(
        caught.value
    )


# --- images ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (dict.clear, r"patch_size is 14 \(not stated"),
        (lambda d: d.update(patch_size=16), "patch_size is 16"),
        (lambda d: d.update(merge_size=1), "merge_size is 1, .*spatial_merge_size is 2"),
        (lambda d: d.update(temporal_patch_size="two"), "temporal_patch_size is 'two'"),
        (lambda d: d.update(size={"height": 3, "width": 3}), "does not load|cannot be prepared"),
        (lambda d: d.update(image_mean="white"), "does not load|cannot be prepared"),
        (lambda d: d.update(image_std=[0.5]), "does not load|cannot be prepared"),
        (lambda d: d.update(do_resize=False), "cannot be prepared"),
    ],
)
def test_image_settings_that_would_fail_every_sample_fail_at_loading(
    broken: Path, edit: Edit, said: str
) -> None:
    edit_json(broken / "preprocessor_config.json", edit)
    with pytest.raises(EngineError, match=said):
        TransformersLocal(broken)


# --- what is left unsaid --------------------------------------------------------------------------


def test_a_whole_checkpoint_assumes_nothing(checkpoint: Path) -> None:
    assert assumptions(read_checkpoint(checkpoint), build_tokenizer()) == ()


def test_what_is_assumed_is_said(broken: Path) -> None:
    (broken / "generation_config.json").unlink()
    edit_json(broken / "preprocessor_config.json", lambda d: d.pop("image_std"))
    tokenizer = build_tokenizer()
    tokenizer.chat_template = None
    end, template, images = assumptions(read_checkpoint(broken), tokenizer)
    ids = read_end_tokens(read_checkpoint(broken)).ids
    assert end.startswith("generation_config.json: missing") and str(ids[0]) in end
    assert template.startswith("chat_template.jinja: missing")
    assert images.startswith("preprocessor_config.json: image_std not stated")


def test_a_run_carries_what_was_assumed(broken: Path) -> None:
    (broken / "generation_config.json").unlink()
    (broken / "chat_template.jinja").unlink()
    end, template = TransformersLocal(broken).describe().warnings
    assert end.startswith("generation_config.json: missing")
    assert template.startswith("chat_template.jinja: missing")
