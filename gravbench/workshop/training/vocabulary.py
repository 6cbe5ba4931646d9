"""The tokenizer of a model trained from nothing: bytes, plus whole tags, LaTeX commands and prompts.

A byte-level BPE without merges spells any text; every HTML tag, LaTeX command and prompt of the task
set is one added token on top, so a table row or a fraction costs one forward per unit, not per letter.
The special tokens are those of GLM-OCR, with `<|mask|>` last (as GravityOCR appends it).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from gravbench.backends.glm.request import PROMPTS
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
