"""What a CPU can prove about the released models: their widths, ids and files, through the whole command."""

import json
from pathlib import Path

import orjson
import pytest
import torch
from full_width import BLOCK, MASK_ID, VOCABULARY, full_tokenizer, write_full_width
from page_support import det, entry, write_folder
from safetensors import safe_open

from gravbench.cli.app import run_command_line

needs_bfloat16 = pytest.mark.skipif(
    not (torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()),
    reason="this CPU emulates bfloat16, and at these widths that takes minutes; "
    "tests/unit/backends/test_transformers_local.py runs it on a small checkpoint",
)
SUITE = """
name = "wide"
version = 1
description = "one small page"
kind = "pages"
scorer = "omnidocbench-1.6"

[pages]
place = "wide"
annotation_sha256 = "{digest}"
release = "one page"
release_pages = 1

[prompts]
text = "Text Recognition:"
table = "Table Recognition:"
formula = "Formula Recognition:"

[max_new_tokens]
text = 6
table = 6
formula = 6
"""


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wide") / "model"
    write_full_width(folder)
    return folder


@pytest.fixture
def page_suite_file(tmp_path: Path) -> Path:
    pages = write_folder(tmp_path / "data", [entry("a.png", [det("title", 0), det("table", 1)])])
    path = tmp_path / "wide.toml"
    path.write_text(SUITE.format(digest=pages.annotation_sha256))
    return path


def test_files_have_the_released_names_and_ids(wide: Path) -> None:
    tokenizer = full_tokenizer()
    assert len(tokenizer) == MASK_ID + 1
    assert tokenizer.convert_tokens_to_ids("<|mask|>") == MASK_ID
    assert tokenizer.convert_tokens_to_ids("<|image|>") == 59280
    with safe_open(str(wide / "model.safetensors"), framework="pt") as weights:
        names = set(weights.keys())
        assert weights.get_slice("lm_head.weight").get_shape() == [VOCABULARY, 1536]
        assert weights.get_slice("lm_head.weight").get_dtype() == "BF16"
    for name in (
        "model.language_model.embed_tokens.weight",
        "model.language_model.layers.1.self_attn.q_proj.weight",
        "model.language_model.layers.1.mlp.gate_up_proj.weight",
        "model.visual.patch_embed.proj.weight",
        "model.visual.merger.gate_proj.weight",
    ):
        assert name in names


@pytest.mark.parametrize("dtype", ["float32", pytest.param("bfloat16", marks=needs_bfloat16)])
def test_page_runs_through_the_command_with_mask_59282_and_block_32(
    wide: Path, page_suite_file: Path, tmp_path: Path, dtype: str
) -> None:
    out = tmp_path / "r"
    code = run_command_line(
        [
            *("run", "--suite", str(page_suite_file), "--data", str(tmp_path / "data"), "--quiet"),
            *("--model", str(wide), "--dtype", dtype, "--out", str(out)),
        ]
    )
    assert code == 0
    manifest = json.loads((out / "manifest.json").read_bytes())
    assert manifest["model"]["mask_token_id"] == MASK_ID
    assert manifest["model"]["block_size"] == BLOCK
    assert manifest["model"]["dtype"] == dtype
    summary = orjson.loads((out / "summary.json").read_bytes())
    assert summary["strategies"]["selfspec"]["counters"]["requests"] == 2
    assert summary["failed_samples"] == 0
    if dtype == "float32":
        assert summary["strategies"]["selfspec"]["identical_to_ar"]["share"] == 1.0
