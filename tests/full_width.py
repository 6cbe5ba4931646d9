"""A checkpoint with the widths, vocabulary and special ids of GravityOCR, few layers, random weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gravbench.workshop.training.checkpoints import CHAT_TEMPLATE, Shape, make_image_processor, save_tokenizer

VOCABULARY = 59392
FIRST_SPECIAL = 59246
MASK_ID = 59282
BLOCK = 32
IMAGE_ID, VIDEO_ID = 59280, 59281
_NAMED = (
    *("<|endoftext|>", "[MASK]", "[gMASK]", "[sMASK]", "<sop>", "<eop>", "<|system|>", "<|user|>"),
    *("<|assistant|>", "<|observation|>", "<|begin_of_image|>", "<|end_of_image|>"),
    *("<|begin_of_video|>", "<|end_of_video|>"),
)


def special_tokens() -> list[str]:
    """59,246 to 59,282: the named ones, unused places up to the image token, the mask last."""
    unused = IMAGE_ID - FIRST_SPECIAL - len(_NAMED)
    return [*_NAMED, *(f"<|unused_{n}|>" for n in range(unused)), "<|image|>", "<|video|>", "<|mask|>"]


def full_tokenizer() -> Any:
    """Bytes and filler tokens up to id 59,245, then the special tokens at their real ids."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    names = [*alphabet, *(f"tok{n}" for n in range(FIRST_SPECIAL - len(alphabet)))]
    core = Tokenizer(models.BPE(vocab={name: i for i, name in enumerate(names)}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in special_tokens()])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token="<|endoftext|>", pad_token="<|endoftext|>"
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def full_config() -> Any:
    """GLM-OCR's widths with one vision layer and two text layers."""
    from transformers import GlmOcrConfig

    return GlmOcrConfig(
        text_config={
            "vocab_size": VOCABULARY,
            "hidden_size": 1536,
            "intermediate_size": 4608,
            "num_hidden_layers": 2,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "max_position_embeddings": 131072,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "partial_rotary_factor": 1.0,
                "mrope_section": [16, 24, 24],
            },
            "eos_token_id": [59246, 59253],
            "pad_token_id": 59246,
        },
        vision_config={
            "depth": 1,
            "hidden_size": 1024,
            "num_heads": 16,
            "intermediate_size": 4096,
            "patch_size": 14,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "in_channels": 3,
            "out_hidden_size": 1536,
        },
        image_token_id=IMAGE_ID,
        video_token_id=VIDEO_ID,
        image_start_token_id=59256,
        image_end_token_id=59257,
        video_start_token_id=59258,
        video_end_token_id=59259,
        tie_word_embeddings=False,
    )


def write_full_width(folder: Path) -> None:
    """Save it in bfloat16, as the released weights are, with all files of the real folder."""
    import torch
    from transformers import GlmOcrForConditionalGeneration

    torch.manual_seed(11)
    with torch.device("meta"):
        model = GlmOcrForConditionalGeneration(full_config())
    model = model.to(torch.bfloat16).to_empty(device="cpu")
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            if tensor.dim() == 1:
                tensor.fill_(1.0 if "norm" in name else 0.0)
            else:
                tensor.normal_(
                    std=0.05 if "lm_head" in name or "embed" in name else 0.03, generator=generator
                )
        for module in model.modules():
            if hasattr(module, "inv_freq") or hasattr(module, "original_inv_freq"):
                _restore_frequencies(module)
    folder.mkdir(parents=True, exist_ok=True)
    model.generation_config.eos_token_id = [59246, 59253]
    model.generation_config.pad_token_id = 59246
    model.generation_config.do_sample = False
    model.save_pretrained(str(folder))
    save_tokenizer(full_tokenizer(), folder)
    make_image_processor(Shape(patch=14)).save_pretrained(str(folder))
    fields = {"bd_size": BLOCK, "mask_id": MASK_ID, "ar_loss_weight": 1.0, "mask_schedule": "uniform"}
    (folder / "block_diffusion.json").write_text(json.dumps(fields))


def _restore_frequencies(module: Any) -> None:
    """Buffers are not saved; they only must not be garbage while saving."""
    for name in ("inv_freq", "original_inv_freq"):
        if hasattr(module, name):
            getattr(module, name).zero_()
