"""The frozen sentences and words that crops are made of, and which texts are held out from training.

The text alone decides its split, never an index.
"""

from __future__ import annotations

import functools
import hashlib
from importlib import resources
from typing import Literal

Split = Literal["train", "heldout"]
SPLITS: tuple[Split, ...] = ("train", "heldout")


def split_of(text: str) -> Split:
    """`heldout` for one text in about ten, by the first byte of its SHA-256."""
    return "heldout" if hashlib.sha256(text.encode("utf-8")).digest()[0] % 10 == 0 else "train"


def _lines(name: str) -> tuple[str, ...]:
    text = resources.files("gravbench.workshop.synth").joinpath("corpus", name).read_text(encoding="utf-8")
    return tuple(line for line in text.splitlines() if line and not line.startswith("#"))


@functools.cache
def sentences(split: Split) -> tuple[str, ...]:
    """Sentences of one split, in file order."""
    return tuple(line for line in _lines("sentences.txt") if split_of(line) == split)


@functools.cache
def words() -> tuple[str, ...]:
    """Lower-case words; shared by both splits, since only whole texts are held out."""
    return tuple(word for word in _lines("words.txt") if word[0].islower())


@functools.cache
def short_words() -> tuple[str, ...]:
    """Lower-case words of at most seven letters, for cells."""
    return tuple(word for word in words() if len(word) <= 7)


@functools.cache
def proper_names() -> tuple[str, ...]:
    """Capitalised words."""
    return tuple(word for word in _lines("words.txt") if word[0].isupper())
