"""Test records: one JSON object each, checked as the official program checks them and normalised once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gravbench.olmocr.page import Rules, TestRecordError, normalize

RELATIONS = ("up", "down", "left", "right")
HEADINGS = ("top_heading", "left_heading")
FORMATS = ("heading", "bold", "italic")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageTest:
    """What all tests share. `page` is kept as written: it only selects files by name."""

    pdf: str
    page: int | str
    id: str
    type: str
    max_diffs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTest(PageTest):
    """`present` and `absent`: a text within the page, or within its first and last characters."""

    text: str
    case_sensitive: bool = True
    first_n: int | None = None
    last_n: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderTest(PageTest):
    """One text starts before another."""

    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTest(PageTest):
    """A cell with the neighbours and headings that `relations` asks for (only those that are asked).

    `cell` is None where the record says null: the official program then throws when it runs the test.
    """

    cell: str | None
    relations: Mapping[str, str]
    ignore_markdown_tables: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MathTest(PageTest):
    """An equation, raw LaTeX, among the page's."""

    math: str
    ignore_dollar_delimited: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineTest(PageTest):
    """The page is not blank (or blank, with `max_length`), does not repeat itself, keeps to its script."""

    max_length: float | None = None
    max_length_skips_image_alt_tags: bool = False
    max_repeats: float = 30
    check_disallowed_characters: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatTest(PageTest):
    """A text within headings, bold or italics (newer rules only)."""

    text: str
    format: str
    case_sensitive: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class FootnoteTest(PageTest):
    """A footnote marker with what stands before and after it (newer rules only)."""

    marker: str
    appears_before_marker: str | None = None
    appears_after_marker: str | None = None


Test = TextTest | OrderTest | TableTest | MathTest | BaselineTest | FormatTest | FootnoteTest

_COMMON = {"pdf", "page", "id", "type", "max_diffs", "checked", "url"}
_REQUIRED: dict[str, tuple[str, ...]] = {
    "present": ("text",),
    "absent": ("text",),
    "order": ("before", "after"),
    "table": ("cell",),
    "math": ("math",),
    "baseline": (),
    "format": ("text", "format"),
    "footnote": ("marker",),
}
_OPTIONAL: dict[str, tuple[str, ...]] = {
    "present": ("case_sensitive", "first_n", "last_n"),
    "absent": ("case_sensitive", "first_n", "last_n"),
    "order": (),
    "table": (*RELATIONS, *HEADINGS, "ignore_markdown_tables"),
    "math": ("ignore_dollar_delimited",),
    "baseline": (
        "max_length",
        "max_length_skips_image_alt_tags",
        "max_repeats",
        "check_disallowed_characters",
    ),
    "format": ("case_sensitive",),
    "footnote": ("appears_before_marker", "appears_after_marker"),
}
_NEWER_ONLY = ("format", "footnote")

Row = Mapping[str, Any]


def known_types(rules: Rules) -> tuple[str, ...]:
    """Test types of a state of the rules."""
    return tuple(name for name in _REQUIRED if rules is Rules.MAIN or name not in _NEWER_ONLY)


def _invalid(message: str, official: str = "ValidationError") -> TestRecordError:
    return TestRecordError(message, official=official)


def _check_shape(row: Row, rules: Rules) -> str:
    """The row's type, when its fields and the common values are as officially required."""
    kind = row.get("type")
    if not isinstance(kind, str) or kind not in known_types(rules):
        known = ", ".join(known_types(rules))
        raise _invalid(f"type: {kind!r} is not a test type of rules {rules.value}; known are {known}")
    needed = ("pdf", "page", "id", *_REQUIRED[kind])
    if lost := [name for name in needed if name not in row]:
        raise _invalid(f"{lost[0]}: missing; a {kind} test needs {', '.join(needed)}", "TypeError")
    if extra := sorted(set(row) - _COMMON - set(_REQUIRED[kind]) - set(_OPTIONAL[kind])):
        raise _invalid(f"{extra[0]}: not a field of a {kind} test", "TypeError")
    for name in ("pdf", "id"):
        if not isinstance(row[name], str) or not row[name]:
            raise _invalid(f"{name}: {row[name]!r} is not a text of at least one character")
    diffs = row.get("max_diffs", 0)
    if not isinstance(diffs, int) or diffs < 0:
        raise _invalid(f"max_diffs: {diffs!r} is not a whole number from 0")
    return kind


def _text(row: Row, name: str, rules: Rules) -> str:
    """A normalised text that is more than blanks."""
    value = row[name]
    if value is None:
        raise _invalid(f"{name}: null; expected a text", "AttributeError")
    if not isinstance(value, str):
        raise _invalid(f"{name}: {value!r} is not a text", "TypeError")
    text = normalize(value, rules)
    if not text.strip():
        raise _invalid(f"{name}: {value!r} is only blanks after normalisation")
    return text


def _number(row: Row, name: str, default: float | None) -> float | None:
    value = row.get(name, default)
    if value is not None and not isinstance(value, int | float):
        raise _invalid(f"{name}: {value!r} is not a number", "TypeError")
    return value


def _count(row: Row, name: str) -> int | None:
    value = row.get(name)
    if value is not None and not isinstance(value, int):
        raise _invalid(f"{name}: {value!r} is not a whole number", "TypeError")
    return value


def _read_text(row: Row, common: dict[str, Any], rules: Rules) -> Test:
    text = _text(row, "text", rules)
    return TextTest(
        **common,
        text=text,
        case_sensitive=bool(row.get("case_sensitive", True)),
        first_n=_count(row, "first_n"),
        last_n=_count(row, "last_n"),
    )


def _read_order(row: Row, common: dict[str, Any], rules: Rules) -> Test:
    before, after = _text(row, "before", rules), _text(row, "after", rules)
    most = min(len(before), len(after)) // 2
    if common["max_diffs"] > most:
        raise _invalid(f"max_diffs: {common['max_diffs']} is more than {most}, half of the shorter text")
    return OrderTest(**common, before=before, after=after)


def _read_table(row: Row, common: dict[str, Any], rules: Rules) -> Test:
    texts: dict[str, str | None] = {}
    for name in ("cell", *RELATIONS, *HEADINGS):
        value = row.get(name)
        if value is not None and not isinstance(value, str):
            raise _invalid(f"{name}: {value!r} is not a text", "TypeError")
        texts[name] = None if value is None else normalize(value, rules)
    cell = texts.pop("cell")
    asked = {name: text for name, text in texts.items() if text}
    ignore = bool(row.get("ignore_markdown_tables", False))
    return TableTest(**common, cell=cell, relations=asked, ignore_markdown_tables=ignore)


def _read_math(row: Row, common: dict[str, Any], rules: Rules) -> Test:
    del rules
    math = row["math"]
    if not isinstance(math, str):
        raise _invalid(f"math: {math!r} is not a text", "AttributeError")
    if not math.strip():
        raise _invalid("math: only blanks")
    dollars = bool(row.get("ignore_dollar_delimited", False))
    return MathTest(**common, math=math, ignore_dollar_delimited=dollars)


def _read_baseline(row: Row, common: dict[str, Any], rules: Rules) -> Test:
    del rules
    most = _number(row, "max_repeats", 30)
    if most is None:
        raise _invalid("max_repeats: null; expected a number", "TypeError")
    return BaselineTest(
        **common,
        max_length=_number(row, "max_length", None),
        max_length_skips_image_alt_tags=bool(row.get("max_length_skips_image_alt_tags", False)),
        max_repeats=most,
        check_disallowed_characters=bool(row.get("check_disallowed_characters", True)),
    )


def _read_format(row: Row, common: dict[str, Any], rules: Rules) -> Test:
    text = _text(row, "text", rules)
    if row["format"] not in FORMATS:
        raise _invalid(f"format: {row['format']!r} is not one of {', '.join(FORMATS)}")
    return FormatTest(
        **common, text=text, format=row["format"], case_sensitive=bool(row.get("case_sensitive", True))
    )


def _read_footnote(row: Row, common: dict[str, Any], rules: Rules) -> Test:
    marker = row["marker"]
    if not isinstance(marker, str) or not marker or " " in marker:
        raise _invalid(f"marker: {marker!r} is not a text without blanks")
    before, after = "appears_before_marker", "appears_after_marker"
    return FootnoteTest(
        **common,
        marker=marker,
        appears_before_marker=_text(row, before, rules) if row.get(before) else None,
        appears_after_marker=_text(row, after, rules) if row.get(after) else None,
    )


_READERS: dict[str, Callable[[Row, dict[str, Any], Rules], Test]] = {
    "present": _read_text,
    "absent": _read_text,
    "order": _read_order,
    "table": _read_table,
    "math": _read_math,
    "baseline": _read_baseline,
    "format": _read_format,
    "footnote": _read_footnote,
}


def read_test(row: Any, rules: Rules) -> Test:
    """A test from its JSON object. Raises TestRecordError, which knows the official exception's name."""
    if not isinstance(row, Mapping):
        raise _invalid(f"{row!r:.80} is not an object", "AttributeError")
    kind = _check_shape(row, rules)
    common = {name: row[name] for name in ("pdf", "page", "id", "type")}
    common["max_diffs"] = row.get("max_diffs", 0)
    return _READERS[kind](row, common, rules)
