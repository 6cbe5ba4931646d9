"""Crops of kind `short`, `line` and `paragraph`: running text, names and numbers, and strings that no
language model can guess.
"""

from __future__ import annotations

import random
import string
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from PIL import Image, ImageDraw

from gravbench.workshop.synth.ink import (
    Anchors,
    Face,
    Pen,
    develop,
    draw_line,
    pick_face,
    pick_wear,
    rotate_points,
    round_up,
)
from gravbench.workshop.synth.language import Split, proper_names, sentences, split_of, words

Style = Literal["prose", "items", "random"]

LENGTHS: dict[str, tuple[int, int]] = {
    "short": (3, 14),
    "line": (15, 36),
    "paragraph": (16, 32),
    "long": (40, 72),
}
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


MAX_WIDTH = {"short": 416, "line": 416, "paragraph": 400, "long": 832}
SMALLEST, LARGEST = 17, 26
_LARGEST_BY_LINES = {1: 26, 2: 26, 3: 24, 4: 21}


@dataclass(frozen=True, slots=True)
class TextPlan:
    """Text that fits: its lines, the pen that draws them and the margins around them, in pixels."""

    lines: tuple[str, ...]
    face: Face
    pen: Pen
    width: float


def plan_text(
    rng: random.Random,
    kind: str,
    split: Split,
    *,
    letters_only: bool = False,
    faces: Sequence[Face] | None = None,
) -> TextPlan:
    """Resample until the text fits the crop and its hash falls on the side of `split`.

    The face is one of `faces`, else what `pick_face` gives.
    """
    while True:
        face = rng.choice(faces) if faces else pick_face(rng, split)
        text = random_letters(rng) if letters_only else compose(rng, kind, pick_style(rng), split)
        lines = tuple(text.split("\n"))
        if split_of(text) != split or (kind == "paragraph" and len(lines) < 2):
            continue
        size = rng.randint(SMALLEST, _LARGEST_BY_LINES[len(lines)])
        plan = _fit(lines, face, size, MAX_WIDTH[kind] - 16)
        if plan is not None:
            return plan


def _fit(lines: tuple[str, ...], face: Face, size: int, limit: float) -> TextPlan | None:
    """The largest size up to `size` at which no line is wider than `limit`; None if even 17 is too large."""
    while size >= SMALLEST:
        pen = Pen(face.path, size, face.package)
        width = max(map(pen.width, lines))
        if width <= limit:
            return TextPlan(lines, face, pen, width)
        size = min(size - 1, int(size * limit / width))
    return None


def draw_text(rng: random.Random, plan: TextPlan) -> tuple[Image.Image, Anchors]:
    """Draw a plan; one anchor per character of the lines joined by newlines."""
    wear = pick_wear(rng)
    ascent, descent = plan.pen.extent()
    spacing = round(plan.pen.size * rng.uniform(1.12, 1.35))
    height = ascent + descent + spacing * (len(plan.lines) - 1)
    tilt = abs(wear.degrees) / 57.3 * plan.width / 2
    canvas = (round_up(plan.width + 8), round_up(height + 4 + 2 * tilt))
    mask = Image.new("L", canvas, 0)
    draw = ImageDraw.Draw(mask)
    x = 4 + rng.uniform(0, max(canvas[0] - plan.width - 8, 0))
    baseline = ascent + 2 + tilt + rng.uniform(0, max(canvas[1] - height - 4 - 2 * tilt, 0))
    anchors: Anchors = []
    for number, line in enumerate(plan.lines):
        if number:
            last = anchors[-1]
            anchors.append(
                None if last is None else (min(last[0] + plan.pen.size * 0.5, canvas[0] - 1), last[1])
            )
        anchors += draw_line(draw, plan.pen, line, round(x), round(baseline) + number * spacing)
    return develop(mask, wear, rng), rotate_points(anchors, wear.degrees, canvas)
