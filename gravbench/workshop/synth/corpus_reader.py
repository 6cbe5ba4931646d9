"""The frozen sentences and words that the crops are made of."""

from __future__ import annotations

import functools
from importlib import resources

from gravbench.workshop.synth.split import Split, split_of


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
