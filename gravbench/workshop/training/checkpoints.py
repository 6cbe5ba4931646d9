"""The model a training starts from: written from nothing, or taken over from any GLM-OCR folder.

A written folder is what `GlmOcrForConditionalGeneration.from_pretrained` expects and `block_diffusion.json`:
nothing about it says that the model is small.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from gravbench.backends.checkpoint_contents import refuse_unlike_tensors
from gravbench.backends.glm.request import PROMPTS, open_image_processor
from gravbench.backends.hub import quiet_transformers
from gravbench.errors import EngineError
from gravbench.records import Task
from gravbench.workshop.synth import CHARSET, LATEX_COMMANDS, TABLE_TAGS

EOS = "<|endoftext|>"
MASK = "<|mask|>"
SPECIAL_TOKENS: tuple[str, ...] = (
    EOS, "[MASK]", "[gMASK]", "[sMASK]", "<sop>", "<eop>",
    "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>",
    "<|begin_of_image|>", "<|end_of_image|>", "<|begin_of_video|>", "<|end_of_video|>",
    "<|image|>", "<|video|>", MASK,
)  # fmt: skip

CHAT_TEMPLATE = (
    "[gMASK]<sop>"
    "{% for message in messages %}<|{{ message.role }}|>\n"
    "{% if message.content is string %}{{ message.content }}{% else %}"
    "{% for part in message.content %}"
    "{% if part.type in ('image', 'image_url') %}<|begin_of_image|><|image|><|end_of_image|>"
    "{% elif part.type == 'text' %}{{ part.text }}{% endif %}"
    "{% endfor %}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)


def build_tokenizer() -> Any:
    """A `PreTrainedTokenizerFast` over bytes, added units and special tokens; ids are stable."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    units = [*TABLE_TAGS, *LATEX_COMMANDS, *PROMPTS.values(), *(c for c in CHARSET if ord(c) > 127)]
    units = [u for u in units if u not in alphabet]  # a byte's letter cannot also stand for itself
    core.add_tokens([AddedToken(u, normalized=False, special=False) for u in dict.fromkeys(units)])
    core.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in SPECIAL_TOKENS])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        eos_token=EOS,
        pad_token=EOS,
        additional_special_tokens=[t for t in SPECIAL_TOKENS if t != EOS],
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


class Spelling(Protocol):
    """Text -> token ids and the character each token starts at."""

    def encode(self, text: str) -> tuple[list[int], list[int]]: ...


@dataclass(frozen=True, slots=True)
class TokenizerSpelling:
    """The tokenizer itself, for checkpoints whose vocabulary is not ours."""

    tokenizer: Any

    def encode(self, text: str) -> tuple[list[int], list[int]]:
        """Ids without special tokens; offsets as the fast tokenizer reports them."""
        spelled = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        return list(spelled["input_ids"]), [start for start, _ in spelled["offset_mapping"]]


@dataclass(frozen=True, slots=True)
class Speller:
    """Text -> ids with the character each token starts at; equal to the tokenizer, ten times cheaper.

    Longest unit first at every position, single bytes elsewhere.
    """

    ids: dict[str, tuple[int, ...]]
    pattern: re.Pattern[str]

    @classmethod
    def of(cls, tokenizer: Any) -> Speller:
        """From a tokenizer made by `build_tokenizer` or read back from its files."""
        from tokenizers import pre_tokenizers

        vocabulary: dict[str, int] = tokenizer.get_vocab()
        alphabet = set(pre_tokenizers.ByteLevel.alphabet())
        encode = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        units = sorted((t for t in vocabulary if t not in alphabet), key=lambda t: (-len(t), t))
        pattern = re.compile("|".join(map(re.escape, units)) + "|.", re.DOTALL)
        single = {*CHARSET, *map(chr, range(128))} - set(units)
        letters = {c: tuple(vocabulary[b] for b in encode.pre_tokenize_str(c)[0][0]) for c in single}
        return cls({**{u: (vocabulary[u],) for u in units}, **letters}, pattern)

    def encode(self, text: str) -> tuple[list[int], list[int]]:
        """Token ids and the start character of each. Raises `KeyError` for a character outside CHARSET."""
        ids: list[int] = []
        starts: list[int] = []
        for match in self.pattern.finditer(text):
            spelled = self.ids[match.group()]
            ids.extend(spelled)
            starts.extend([match.start()] * len(spelled))
        return ids, starts


def spelling_of(tokenizer: Any) -> Spelling:
    """The cheap speller where the vocabulary is bytes and units, the tokenizer itself elsewhere."""
    ours = set(TABLE_TAGS) | set(LATEX_COMMANDS) <= set(tokenizer.get_vocab())
    return Speller.of(tokenizer) if ours and len(tokenizer) < 1024 else TokenizerSpelling(tokenizer)


def save_tokenizer(tokenizer: Any, folder: Path) -> None:
    """Write tokenizer.json, tokenizer_config.json and the chat template into `folder`."""
    for trace_of_loading in ("is_local", "local_files_only"):
        tokenizer.init_kwargs.pop(trace_of_loading, None)
    tokenizer.save_pretrained(str(folder))


def prompt_ids(tokenizer: Any, task: Task, *, image_tokens: int) -> list[int]:
    """The prefix of one request: chat template with `image_tokens` image tokens, generation prompt."""
    message = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": PROMPTS[task]}]}
    text = tokenizer.apply_chat_template([message], tokenize=False, add_generation_prompt=True)
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False)
    image = tokenizer.convert_tokens_to_ids("<|image|>")
    at = ids.index(image)
    return [*ids[:at], *[image] * image_tokens, *ids[at + 1 :]]


def eos_ids(tokenizer: Any) -> Sequence[int]:
    """Ids that end a response: `<|endoftext|>` and, as in GLM-OCR, `<|user|>`."""
    return [tokenizer.convert_tokens_to_ids(EOS), tokenizer.convert_tokens_to_ids("<|user|>")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Sizes of a GLM-OCR model. Widths in channels, depths in layers, patch in pixels."""

    vision_depth: int = 4
    vision_width: int = 192
    vision_heads: int = 3
    vision_mlp: int = 384
    patch: int = 8
    text_depth: int = 6
    text_width: int = 256
    text_heads: int = 4
    text_mlp: int = 512
    head_dim: int = 64
    mrope_section: tuple[int, int, int] = (2, 4, 26)
    rope_theta: float = 1000.0
    block: int = 8


TINY = Shape()
"""The shape of gravity-tiny: 6.4 M parameters, 13 MB in bfloat16."""

MICRO = Shape(
    vision_depth=1, vision_width=32, vision_heads=2, vision_mlp=48, text_depth=2, text_width=32,
    text_heads=2, text_mlp=48, head_dim=16, mrope_section=(1, 2, 5),
)  # fmt: skip
"""A shape for tests: loads in milliseconds."""


def make_config(shape: Shape, tokenizer: Any) -> Any:
    """The `GlmOcrConfig` of a model of this shape over this tokenizer."""
    from transformers import GlmOcrConfig

    token = tokenizer.convert_tokens_to_ids
    return GlmOcrConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": shape.text_width,
            "intermediate_size": shape.text_mlp,
            "num_hidden_layers": shape.text_depth,
            "num_attention_heads": shape.text_heads,
            "num_key_value_heads": shape.text_heads,
            "head_dim": shape.head_dim,
            "max_position_embeddings": 4096,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": shape.rope_theta,
                "partial_rotary_factor": 1.0,
                "mrope_section": list(shape.mrope_section),
            },
            "eos_token_id": list(eos_ids(tokenizer)),
            "pad_token_id": eos_ids(tokenizer)[0],
        },
        vision_config={
            "depth": shape.vision_depth,
            "hidden_size": shape.vision_width,
            "num_heads": shape.vision_heads,
            "intermediate_size": shape.vision_mlp,
            "patch_size": shape.patch,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "in_channels": 3,
            "out_hidden_size": shape.text_width,
        },
        image_token_id=token("<|image|>"),
        video_token_id=token("<|video|>"),
        image_start_token_id=token("<|begin_of_image|>"),
        image_end_token_id=token("<|end_of_image|>"),
        video_start_token_id=token("<|begin_of_video|>"),
        video_end_token_id=token("<|end_of_video|>"),
        tie_word_embeddings=False,
    )


def make_image_processor(shape: Shape) -> Any:
    """`Glm46VImageProcessorPil`: needs no torchvision; never enlarges a crop of at least one merged patch."""
    from transformers.models.glm46v.image_processing_pil_glm46v import Glm46VImageProcessorPil

    side = 2 * shape.patch
    return Glm46VImageProcessorPil(
        patch_size=shape.patch,
        temporal_patch_size=2,
        merge_size=2,
        image_mean=[0.8, 0.8, 0.8],
        image_std=[0.22, 0.22, 0.22],
        size={"shortest_edge": 2 * side * side, "longest_edge": 2 * 2048 * 2048},
    )


def write_initial_checkpoint(folder: Path, *, shape: Shape = TINY, seed: int = 0) -> None:
    """Random weights, tokenizer, processor and `block_diffusion.json` into `folder`."""
    import torch
    from transformers import GlmOcrForConditionalGeneration

    tokenizer = build_tokenizer()
    torch.manual_seed(seed)
    model = GlmOcrForConditionalGeneration(make_config(shape, tokenizer))
    write_checkpoint(folder, model, tokenizer, make_image_processor(shape), block=shape.block)


def write_checkpoint(folder: Path, model: Any, tokenizer: Any, processor: Any, *, block: int) -> None:
    """Save all files of a checkpoint folder; safetensors only, weights in bfloat16."""
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    model.generation_config.eos_token_id = list(eos_ids(tokenizer))
    model.generation_config.pad_token_id = eos_ids(tokenizer)[0]
    model.generation_config.do_sample = False
    computed_in = model.dtype
    with quiet_transformers():
        model.config.dtype = torch.bfloat16
        model.save_pretrained(
            str(folder), state_dict={name: t.to(torch.bfloat16) for name, t in model.state_dict().items()}
        )
        model.config.dtype = computed_in
    save_tokenizer(tokenizer, folder)
    processor.save_pretrained(str(folder))
    fields = {
        "ar_loss_weight": 1.0,
        "bd_size": block,
        "mask_id": tokenizer.convert_tokens_to_ids(MASK),
        "mask_schedule": "uniform",
    }
    (folder / "block_diffusion.json").write_text(json.dumps(fields, indent=2, sort_keys=True) + "\n")


def load_for_training(folder: Path, dtype: torch.dtype) -> tuple[Any, Any, Any]:
    """Model in training mode, tokenizer and image processor of a checkpoint folder; safetensors only.

    Raises `EngineError` when the folder is not a readable GLM-OCR checkpoint.
    """
    from transformers import AutoTokenizer, GlmOcrForConditionalGeneration

    for name in ("config.json", "tokenizer_config.json", "preprocessor_config.json"):
        if not (folder / name).is_file():
            raise EngineError(
                f"{folder}: {name} is missing, expected a GLM-OCR checkpoint folder",
                hint="give --init a folder saved by transformers, or leave it out to start from nothing",
            )
    try:
        with quiet_transformers():
            model, info = GlmOcrForConditionalGeneration.from_pretrained(
                str(folder),
                dtype=dtype,
                local_files_only=True,
                use_safetensors=True,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # refused below, by name
            )
            tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
            processor = open_image_processor(folder)
    except Exception as error:
        raise EngineError(
            f"{folder}: cannot be loaded ({_first_line(error)})", hint="check the files"
        ) from error
    refuse_unlike_tensors(info, folder)
    return model.train(), tokenizer, processor


def adopt_checkpoint(source: Path, target: Path, *, block: int) -> None:
    """Copy `source` into `target` as a checkpoint that can draft.

    Without a `<|mask|>` token one is appended; its embedding is drawn from the mean and deviation of the
    table (as GravityOCR does), so it starts as a plausible but unused word.
    """
    model, tokenizer, processor = load_for_training(source, torch.float32)
    if MASK not in tokenizer.get_vocab():
        tokenizer.add_special_tokens(
            {"additional_special_tokens": [MASK]}, replace_extra_special_tokens=False
        )
        mask = tokenizer.convert_tokens_to_ids(MASK)
        table = model.get_input_embeddings().weight
        if mask >= len(table):
            model.resize_token_embeddings(mask + 1, mean_resizing=False)
            table = model.get_input_embeddings().weight
        with torch.no_grad():
            known = table[:mask]
            noise = torch.randn(known.shape[1], generator=torch.Generator().manual_seed(0))
            table[mask] = known.mean(0) + noise * known.std(0)
    write_checkpoint(target, model, tokenizer, processor, block=block)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
