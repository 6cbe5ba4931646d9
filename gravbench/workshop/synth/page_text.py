"""What the text regions of a page say, as lines; only held-out or only training texts."""

from __future__ import annotations

import random
import string
import textwrap
from collections.abc import Callable, Sequence

from gravbench.workshop.synth.content import compose
from gravbench.workshop.synth.corpus_reader import proper_names, short_words, words
from gravbench.workshop.synth.lettering import Pen
from gravbench.workshop.synth.split import Split, split_of

Lines = tuple[str, ...]
LONGEST_LINE = 36


def fitting(
    rng: random.Random, make: Callable[[random.Random], str], *, pen: Pen, width: float, split: Split
) -> Lines:
    """Draw texts until one is of `split`, with no line over 36 characters or wider than `width`."""
    while True:
        text = make(rng)
        lines = tuple(text.split("\n"))
        fits = all(len(line) <= LONGEST_LINE and pen.width(line) <= width for line in lines)
        if fits and split_of(text) == split:
            return lines


def paragraph(rng: random.Random, split: Split) -> str:
    """Two to four lines of prose; one in eight of names and numbers."""
    while True:
        text = compose(rng, "paragraph", "items" if rng.random() < 0.125 else "prose", split)
        if "\n" in text:
            return text


def long_paragraph(rng: random.Random, split: Split) -> str:
    """Four lines of prose: enough to be cut in two."""
    while True:
        text = compose(rng, "paragraph", "prose", split)
        if text.count("\n") == 3:
            return text


def title(rng: random.Random, split: Split) -> str:
    """A numbered or plain heading of one line."""
    text = compose(rng, "short", "prose", split).rstrip(".,;:").capitalize()
    return f"{rng.randint(1, 9)}. {text}" if rng.random() < 0.4 else text


def header(rng: random.Random) -> str:
    """A running head."""
    return f"{rng.choice(proper_names())} {rng.choice(words())} {rng.randint(1900, 2030)}"


def caption(rng: random.Random, kind: str) -> str:
    """`Table 3: two or three words`."""
    return f"{kind} {rng.randint(1, 9)}: {' '.join(rng.choices(short_words(), k=rng.randint(2, 3)))}"


def code(rng: random.Random) -> str:
    """Three or four lines of a made-up program, indented by two blanks."""
    name, step = rng.choice(short_words()), rng.choice(short_words())
    low, high = rng.randint(0, 9), rng.randint(10, 99)
    lines = [
        f"def {name}({step}):",
        f"  total = {low}",
        f"  for i in range({high}):",
        f"  return total + {step}",
    ]
    return "\n".join(lines if rng.random() < 0.5 else lines[:2] + lines[3:])


def references(rng: random.Random) -> str:
    """Two or three entries of a list of references, one line each."""
    first = rng.randint(1, 60)
    entries = []
    for number in range(rng.randint(2, 3)):
        author = f"{rng.choice(string.ascii_uppercase)}. {rng.choice(proper_names())}"
        entries.append(f"[{first + number}] {author}, {rng.choice(words())}, {rng.randint(1950, 2026)}.")
    return "\n".join(entries)


def shuffled(rng: random.Random, lines: Sequence[str]) -> Lines:
    """The words of `lines` in random order, set again no longer than the longest line was."""
    tokens = " ".join(lines).split()
    rng.shuffle(tokens)
    width = max(map(len, lines))
    return tuple(textwrap.wrap(" ".join(tokens), width, break_long_words=False, break_on_hyphens=False))
