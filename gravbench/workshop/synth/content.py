"""What plain-text crops say: running text, names and numbers, and strings no language model can guess."""

from __future__ import annotations

import random
import string
import textwrap
from collections.abc import Callable
from typing import Literal

from gravbench.workshop.synth.corpus_reader import proper_names, sentences, words
from gravbench.workshop.synth.split import Split

Style = Literal["prose", "items", "random"]

LENGTHS: dict[str, tuple[int, int]] = {"short": (3, 14), "line": (15, 36), "paragraph": (16, 32)}
"""Characters of a line by kind, both ends included."""

_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_SURNAMES = (
    "Okafor",
    "Lindqvist",
    "Moreau",
    "Tanaka",
    "Novak",
    "Haddad",
    "Oyelaran",
    "Brandt",
    "Castillo",
    "Whitlock",
    "Iyer",
    "Petrov",
    "Kowalski",
    "Dunne",
    "Abbott",
    "Yilmaz",
    "Ferreira",
    "Nakamura",
    "Quigley",
    "Zhao",
    "Vasquez",
    "Jensen",
    "Mbeki",
    "Rossi",
)
_PLAIN = string.ascii_letters + string.digits
_SYMBOLS = "".join(c for c in map(chr, range(33, 127)) if not c.isalnum()) + "–’“”é°€×"


def pick_style(rng: random.Random) -> Style:
    """65 % running text, 20 % names and numbers, 15 % random strings."""
    return rng.choices(("prose", "items", "random"), weights=(65, 20, 15))[0]


def compose(rng: random.Random, kind: str, style: Style, split: Split) -> str:
    """Text of the given kind and style; lengths are those of `LENGTHS`, paragraphs have 2 to 4 lines."""
    low, high = LENGTHS[kind]
    if kind != "paragraph":
        return _line(rng, style, split, rng.randint(low, high), low)
    count, width = rng.randint(2, 4), rng.randint(low + 4, high)
    if style == "prose":
        return _prose_paragraph(rng, split, count, width)
    return "\n".join(_line(rng, style, split, rng.randint(low, width), low) for _ in range(count))


def _line(rng: random.Random, style: Style, split: Split, length: int, low: int) -> str:
    while True:
        if style == "prose":
            text = _prose(rng, split, length)
        else:
            text = _joined(rng, _random_group if style == "random" else _item, length)
        if len(text) >= low:
            return text


def _sentence(rng: random.Random, split: Split) -> str:
    text = rng.choice(sentences(split))
    roll = rng.random()
    if roll < 0.04:
        return text.upper()
    if roll < 0.08:
        return text.title()
    return text


def _prose(rng: random.Random, split: Split, length: int) -> str:
    """Span of whole words of one or two sentences, at most `length` characters."""
    tokens = f"{_sentence(rng, split)} {_sentence(rng, split)}".split(" ")
    start = 0 if rng.random() < 0.3 else rng.randrange(max(len(tokens) - 2, 1))
    return _take(tokens[start:], length)


def _prose_paragraph(rng: random.Random, split: Split, count: int, width: int) -> str:
    tokens: list[str] = []
    while sum(map(len, tokens)) + len(tokens) < count * width + 40:
        tokens += _sentence(rng, split).split(" ")
    start = rng.randrange(4)
    lines = textwrap.wrap(" ".join(tokens[start:]), width, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines[:count])


def _take(tokens: list[str], length: int) -> str:
    text = ""
    for token in tokens:
        longer = f"{text} {token}" if text else token
        if len(longer) > length:
            break
        text = longer
    return text


def _joined(rng: random.Random, make: Callable[[random.Random], str], length: int) -> str:
    tokens: list[str] = []
    for _ in range(12):
        tokens += make(rng).split(" ")
    return _take(tokens, length)


def _random_group(rng: random.Random) -> str:
    """Two to eight letters and digits; about one group in five may hold any symbol."""
    alphabet = rng.choice((_PLAIN, _PLAIN, string.ascii_lowercase, string.ascii_uppercase + string.digits))
    if rng.random() < 0.22:
        alphabet = string.ascii_letters[:20] + string.digits + _SYMBOLS
    return "".join(rng.choices(alphabet, k=rng.randint(2, 8)))


def random_letters(rng: random.Random) -> str:
    """A line of letters and digits alone, in groups: nothing in it can be guessed from its neighbours."""
    groups = ["".join(rng.choices(_PLAIN, k=rng.randint(3, 7))) for _ in range(10)]
    return _take(groups, rng.randint(18, 30))


def _item(rng: random.Random) -> str:
    """One name, number, date, price, reference, address or a couple of unrelated words."""
    return rng.choice(_ITEMS)(rng)


def _soup(rng: random.Random) -> str:
    text = " ".join(rng.choices(words(), k=rng.randint(1, 3)))
    return rng.choice((text, text, text.capitalize(), text.upper(), f"({text})", f"“{text}”", text + ","))


def _name(rng: random.Random) -> str:
    surname = rng.choice(_SURNAMES)
    return rng.choice(
        (f"{rng.choice(string.ascii_uppercase)}. {surname}", surname, rng.choice(proper_names()))
    )


def _number(rng: random.Random) -> str:
    value = rng.randint(0, 10 ** rng.randint(1, 6))
    fraction = f"{rng.randint(0, 999) / 100:.2f}"
    return rng.choice(
        (f"{value:,}", str(value), f"{value}.{rng.randint(0, 99)}", f"{fraction}%", f"-{fraction}")
    )


def _date(rng: random.Random) -> str:
    day, month, year = rng.randint(1, 28), rng.randint(1, 12), rng.randint(1750, 2049)
    return rng.choice(
        (
            f"{day} {_MONTHS[month - 1]} {year}",
            f"{_MONTHS[month - 1]} {day}, {year}",
            f"{year}-{month:02}-{day:02}",
            f"{day:02}/{month:02}/{year % 100:02}",
            f"{rng.randint(0, 23)}:{rng.randint(0, 59):02}",
        )
    )


def _price(rng: random.Random) -> str:
    return rng.choice("$€") + f"{rng.randint(1, 99999) / 100:,.2f}"


def _reference(rng: random.Random) -> str:
    letters = "".join(rng.choices(string.ascii_uppercase, k=rng.randint(1, 3)))
    number = rng.randint(1, 99999)
    return rng.choice(
        (
            f"{letters}-{number}",
            f"No. {number}/{rng.randint(10, 99)}",
            f"[{rng.randint(1, 99)}]",
            f"#{number}",
            f"{letters}{number % 100}_{rng.randint(0, 9)}",
            f"pp. {number % 300}–{number % 300 + rng.randint(1, 40)}",
            f"Art. {number % 90}",
        )
    )


def _address(rng: random.Random) -> str:
    user, host = rng.choice(words()), rng.choice(words())
    return rng.choice(
        (f"{user}@{host}.org", f"{user}.{host}@mail.net", f"www.{host}.com", f"~/{user}/{host}.txt")
    )


def _measure(rng: random.Random) -> str:
    a, b = rng.randint(1, 400), rng.randint(1, 400)
    return rng.choice(
        (f"{a} × {b} mm", f"{a / 10} °C", f"{a}° {b % 60}’", f"{a} kg", f"{a}/{b}", f"{a} + {b} = {a + b}")
    )


_ITEMS: tuple[Callable[[random.Random], str], ...] = (
    _soup,
    _soup,
    _soup,
    _name,
    _number,
    _date,
    _price,
    _reference,
    _address,
    _measure,
)
