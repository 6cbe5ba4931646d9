"""Markup rewritten so that every libxml2 reads it as the 2.9 series did, on which the official digits rest.

libxml2 2.14 took over HTML5's tokeniser: `a<b</td>` opens a tag `b<` there, and a tag `b` that swallows the
end of the cell here. Both build trees from tags alike, so it is enough to read tags, references and
comments by the old rules and to print them in a form that has one reading. Cells such as `p<x` reach
this point unescaped, because entities are decoded before tables are parsed.
"""

from __future__ import annotations

import re
from html.entities import name2codepoint

_RAW_TEXT = ("script", "style")
# Read as plain text up to their end tags by newer parsers, as ordinary elements by the old one. Under
# another name they stay ordinary; TEDS only asks whether two names are equal.
_NEWLY_RAW = frozenset({"iframe", "noembed", "noframes", "noscript", "plaintext", "textarea", "title", "xmp"})
# Tags and text that read the same everywhere; nearly all tables match and are left alone.
_NAME = rf"(?!(?:{'|'.join(sorted(_NEWLY_RAW.union(_RAW_TEXT)))})\b)[a-z][a-z0-9]{{0,20}}"
_PLAIN = re.compile(
    rf"(?:[^<&\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff\r]++"
    rf"|<{_NAME}(?: +[a-z]+=\"[^\"<&\0-\x1f\ud800-\udfff\ufffe\uffff]*\")* ?/?>|</{_NAME}>)*+"
)
_STEP = re.compile(r"[^<&]+")
_TAG_NAME = re.compile(r"[A-Za-z_:.][A-Za-z0-9:_.-]{0,99}", re.ASCII)
_SPACE = re.compile(r"[\x20\t\n\r]*")
_BOGUS_ATTRIBUTE = re.compile(r"(?:(?!/>)[^\x20\t\n\r>])*")
_UNQUOTED = re.compile(r"[^\x20\t\n\r>]*")
_COMMENT_END = re.compile(r"--!?>")
_REFERENCE = re.compile(
    r"&(?:#[xX](?P<hex>[0-9a-fA-F]*);?|#(?P<dec>[0-9]*);?|(?P<name>[^\W\d][\w.:-]*)(?P<end>;?))"
)
_INVALID = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def repair_html(source: str) -> str:
    """`source` in a form with one reading; up to its first NUL, where the old parser stopped."""
    source = source.partition("\0")[0]
    if _PLAIN.fullmatch(source):
        return source
    source = source.encode("utf-8", "replace").decode("utf-8")
    pieces: list[str] = []
    position = 0
    while position < len(source):
        text, position = _next_piece(source, position)
        pieces.append(text)
    return "".join(pieces)


def _next_piece(source: str, position: int) -> tuple[str, int]:
    """Rewritten text of what stands at `position`, and where the next thing begins."""
    if run := _STEP.match(source, position):
        return _escape(run.group()), run.end()
    if source[position] == "&":
        return _reference(source, position)
    follow = source[position + 1 : position + 2]
    if follow == "/":
        return _end_tag(source, position)
    if follow == "!" and (end := _declaration_end(source, position)):
        return "", end
    if follow == "?":
        return "", _after_instruction(source, position)
    if follow and (follow in "_:" or (follow.isascii() and follow.isalpha())):
        return _start_tag(source, position)
    return "&lt;", position + 1


def _escape(text: str) -> str:
    text = _INVALID.sub("", text)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\r", "&#13;")


def _decode(match: re.Match[str]) -> str:
    """The text of one reference. A name counts only when it is known and closed by a semicolon."""
    if match["name"]:
        name = match["name"]
        code = 39 if name == "apos" else name2codepoint.get(name)
        return chr(code) if code and match["end"] else match.group()
    digits = match["hex"] if match["hex"] is not None else match["dec"]
    code = int(digits or "0", 16 if match["hex"] is not None else 10) if len(digits) < 4000 else 0x110000
    return _INVALID.sub("", chr(code)) if code < 0x110000 else ""


def _reference(source: str, position: int) -> tuple[str, int]:
    match = _REFERENCE.match(source, position)
    return (_escape(_decode(match)), match.end()) if match else ("&amp;", position + 1)


def _skip_past(source: str, position: int, mark: str) -> int:
    found = source.find(mark, position)
    return len(source) if found < 0 else found + len(mark)


def _end_tag(source: str, position: int) -> tuple[str, int]:
    name = _TAG_NAME.match(source, position + 2)
    if name is None:  # only the two characters go, what follows is text
        return "", position + 2
    return f"</{_shown_name(name.group())}>", _skip_past(source, name.end(), ">")


def _declaration_end(source: str, position: int) -> int | None:
    """End of a comment or doctype, which leave no trace in the tree; `None` for what is text after all."""
    if source[position + 2 : position + 9].upper() == "DOCTYPE":
        return _skip_past(source, position, ">")
    if not source.startswith("<!--", position):
        return None
    closing = _COMMENT_END.search(source, position + 4)
    return closing.end() if closing else len(source)


def _after_instruction(source: str, position: int) -> int:
    begins_name = source[position + 2 : position + 3].isalpha()
    return _skip_past(source, position, ">") if begins_name else position + 2


def _shown_name(name: str) -> str:
    name = name.lower()
    return f"{name}-element" if name in _NEWLY_RAW else name


def _start_tag(source: str, position: int) -> tuple[str, int]:
    name_match = _TAG_NAME.match(source, position + 1)
    assert name_match is not None  # the caller looked at its first character
    name = _shown_name(name_match.group())
    attributes: dict[str, str | None] = {}
    position = _blanks_end(source, name_match.end())
    while position < len(source) and source[position] != ">" and not source.startswith("/>", position):
        position = _attribute(source, position, attributes)
    shown = "".join(
        f" {key}" if value is None else f' {key}="{_escape(value).replace(chr(34), "&quot;")}"'
        for key, value in attributes.items()
    )
    if position >= len(source):  # cut off inside the tag: the element is dropped again
        return "", position
    closing = "/>" if source[position] == "/" else ">"
    position += len(closing)
    if name in _RAW_TEXT and closing == ">":
        end = _raw_text_end(source, position, name)
        return f"<{name}{shown}>{source[position:end]}", end
    return f"<{name}{shown}{closing}", position


def _raw_text_end(source: str, position: int, name: str) -> int:
    found = re.compile(f"</{name}", re.IGNORECASE).search(source, position)
    return found.start() if found else len(source)


def _attribute(source: str, position: int, attributes: dict[str, str | None]) -> int:
    """Read one attribute into `attributes` (the first of a name wins) and the blanks behind it."""
    name = _TAG_NAME.match(source, position)
    if name is None:
        junk = _BOGUS_ATTRIBUTE.match(source, position)
        return _blanks_end(source, junk.end() if junk else position)
    value: str | None = None
    position = _blanks_end(source, name.end())
    if source.startswith("=", position):
        value, position = _attribute_value(source, _blanks_end(source, position + 1))
    attributes.setdefault(name.group().lower(), value)
    return _blanks_end(source, position)


def _attribute_value(source: str, position: int) -> tuple[str, int]:
    quote = source[position : position + 1]
    if quote and quote in "\"'":
        end = source.find(quote, position + 1)
        end = len(source) if end < 0 else end
        value, position = source[position + 1 : end], min(end + 1, len(source))
    else:
        match = _UNQUOTED.match(source, position)
        assert match is not None  # the pattern matches the empty string
        value, position = match.group(), match.end()
    return _REFERENCE.sub(_decode, value), position


def _blanks_end(source: str, position: int) -> int:
    match = _SPACE.match(source, position)
    assert match is not None  # the pattern matches the empty string
    return match.end()
