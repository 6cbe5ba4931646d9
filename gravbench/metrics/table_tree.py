"""Table in normal form -> the ordered tree TEDS compares (OmniDocBench v1.6, section "TEDS").

The tree of a cell ends at the cell: what is nested in it becomes tokens of its content, one for each
character and one for each tag, coded as the characters of one string so that edit distances run on
strings. Nested elements still count in `n_nodes`, the denominator of TEDS.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html.entities import name2codepoint
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lxml import html as lxml_html

INSTRUCTION = "gravbench-instruction"
"""Element that stands for a processing instruction: a node and a token, but none of `n_nodes`."""
# Tags nested in cells are coded as characters of the last private plane; real text does not use it.
_FIRST_TAG_CODE = 0x100000
_LAST_TAG_CODE = 0x10FFFD


@dataclass(frozen=True, slots=True)
class NodeLabel:
    """What renaming compares: tag, spans (cells only) and the content tokens of a cell."""

    tag: str
    colspan: int | None = None
    rowspan: int | None = None
    content: str = ""


@dataclass(frozen=True, slots=True)
class TableTree:
    """A table in postorder. `leftmost[i]` is the postorder index of the leftmost leaf below node i.

    `n_nodes` counts all descendant elements of the table, nested ones in cells included, the table not.
    """

    labels: tuple[NodeLabel, ...]
    leftmost: tuple[int, ...]
    n_nodes: int


class TagCodes:
    """One private character per nested tag name and direction; shared by the two trees of a pair."""

    def __init__(self) -> None:
        self._codes: dict[str, str] = {}

    def code(self, tag: str) -> str:
        """The character that stands for `tag` ("<b>" or "</b>"); the last one is shared when all are used."""
        code = self._codes.get(tag)
        if code is None:
            code = chr(min(_FIRST_TAG_CODE + len(self._codes), _LAST_TAG_CODE))
            self._codes[tag] = code
        return code


_INK = r"[^<&\s\0-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]++"
_CELL = rf'<td(?: colspan="(\d{{1,4}})")?(?: rowspan="(\d{{1,4}})")?>((?:{_INK}(?: {_INK})*+)?)</td>'
_PLAIN_CELL = re.compile(_CELL, re.ASCII)
_PLAIN_TABLE = re.compile(
    rf'<html><body><table border="1" >((?:<tr>(?:{_CELL})++</tr>)++)</table></body></html>', re.ASCII
)
_MAX_PLAIN_CHARS = 1_000_000
"""Longer sources meet limits of the parser."""


def plain_tree(source: str) -> TableTree | None:
    """The tree of a table in normal form that is nothing but rows of cells of text; None for any other.

    What `build_tree` makes of `find_table`, without a parser.
    """
    found = _PLAIN_TABLE.fullmatch(source) if len(source) <= _MAX_PLAIN_CHARS else None
    if found is None:
        return None
    labels: list[NodeLabel] = []
    leftmost: list[int] = []
    row_label = NodeLabel("tr")
    for row in found[1].split("</tr>")[:-1]:
        first = len(labels)
        for colspan, rowspan, content in _PLAIN_CELL.findall(row):
            leftmost.append(len(labels))
            labels.append(NodeLabel("td", int(colspan or 1), int(rowspan or 1), content))
        leftmost.append(first)
        labels.append(row_label)
    leftmost.append(0)
    labels.append(NodeLabel("table"))
    return TableTree(tuple(labels), tuple(leftmost), len(labels) - 1)


def find_table(source: str) -> lxml_html.HtmlElement | None:
    """The first `body/table` of `source`, or `None`; raises lxml's ParserError on an empty document."""
    from lxml import html as lxml_html  # here: plain tables need no parser

    parser = lxml_html.HTMLParser(remove_comments=True, remove_pis=True)
    document = lxml_html.fromstring(repair_html(source), parser=parser)
    tables = document.findall("body/table")
    return tables[0] if tables else None


def build_tree(table: lxml_html.HtmlElement, codes: TagCodes) -> TableTree:
    """Postorder arrays of `table`; raises ValueError for a span that is not an integer, as officially."""
    from lxml import etree

    labels: list[NodeLabel] = []
    leftmost: list[int] = []
    # (element, postorder index at which its subtree began); an element is pushed again to be closed.
    stack: list[tuple[lxml_html.HtmlElement, int | None]] = [(table, None)]
    while stack:
        element, first = stack.pop()
        if first is not None:
            labels.append(NodeLabel(_tag(element)))
            leftmost.append(first)
        elif _tag(element) == "td":
            leftmost.append(len(labels))
            labels.append(_cell_label(element, codes))
        else:
            stack.append((element, len(labels)))
            stack.extend((child, None) for child in reversed(element))
    n_nodes = sum(1 for element in table.iter(etree.Element) if not is_instruction(element)) - 1
    return TableTree(tuple(labels), tuple(leftmost), n_nodes)


def is_instruction(element: lxml_html.HtmlElement) -> bool:
    """Whether `element` stands for a processing instruction."""
    return str(element.tag) == INSTRUCTION


def _tag(element: lxml_html.HtmlElement) -> str:
    """Tag without its prefix: the official parser turns `x:td` into `td`."""
    tag = str(element.tag)
    prefix, _, local = tag.partition(":")
    return local if prefix and local else tag


def _cell_label(cell: lxml_html.HtmlElement, codes: TagCodes) -> NodeLabel:
    colspan, rowspan = (int(cell.get(name, "1")) for name in ("colspan", "rowspan"))
    return NodeLabel("td", colspan, rowspan, _content(cell, codes))


def _content(cell: lxml_html.HtmlElement, codes: TagCodes) -> str:
    """Characters and tag codes inside `cell`. The tail of a nested td is lost, as officially."""
    pieces = [cell.text or ""]
    stack: list[tuple[lxml_html.HtmlElement, bool]] = [(child, False) for child in reversed(cell)]
    while stack:
        element, closing = stack.pop()
        tag = _tag(element)
        if not closing:
            pieces += (codes.code(f"<{tag}>"), element.text or "")
            stack.append((element, True))
            stack.extend((child, False) for child in reversed(element))
            continue
        if tag != "unk":
            pieces.append(codes.code(f"</{tag}>"))
        if tag != "td":
            pieces.append(element.tail or "")
    return "".join(pieces)


_RAW_TEXT = ("script", "style")
_CLOSES_RAW_TEXT = frozenset({"div", "td", "th", "tr", "thead", "tbody", "tfoot", "table", "body", "html"})
# Read as plain text up to their end tags by newer parsers, as ordinary elements by the old one. Under
# another name they stay ordinary; TEDS only asks whether two names are equal.
_NEWLY_RAW = frozenset({"iframe", "noembed", "noframes", "noscript", "plaintext", "textarea", "title", "xmp"})
# Tags and text that read the same everywhere; nearly all tables match and are left alone. Compiled by its
# first use, as is the other large expression below.
_NAME = rf"(?!(?:{'|'.join(sorted(_NEWLY_RAW.union(_RAW_TEXT)))})\b)[a-z][a-z0-9]{{0,20}}"
_PLAIN = (
    rf"(?:[^<&\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff\r]++"
    rf"|<{_NAME}(?: +[a-z]+=\"[^\"<&\0-\x1f\ud800-\udfff\ufffe\uffff]*\")* ?/?>|</{_NAME}>)*+"
)
_STEP = re.compile(r"[^<&]+")
_TAG_NAME = re.compile(r"[A-Za-z_:.][A-Za-z0-9:_.-]{0,99}", re.ASCII)
_END_TAG = re.compile(r"</([A-Za-z_:.][A-Za-z0-9:_.-]*)[^>]*>?", re.ASCII)
_SPACE = re.compile(r"[\x20\t\n\r]*")
_BOGUS_ATTRIBUTE = re.compile(r"(?:(?!/>)[^\x20\t\n\r>])*")
_UNQUOTED = re.compile(r"[^\x20\t\n\r>]*")
_COMMENT_END = re.compile(r"--!?>")
_NAME_OF_BMP = r"(?:[^\W\d\U00010000-\U0010ffff]|:)(?:[^\W\U00010000-\U0010ffff]|[.:-])*"
_INSTRUCTION_TARGET = re.compile(rf"{_NAME_OF_BMP}[\x20\t\n\r]*")
_DOCTYPE = re.compile(
    rf"<!DOCTYPE[\x20\t\n\r]*(?:{_NAME_OF_BMP})?[\x20\t\n\r]*"
    r"(?:(?:SYSTEM|PUBLIC)[\x20\t\n\r]*(?:\"[^\"]*\"?|'[^']*'?)?[\x20\t\n\r]*(?:\"[^\"]*\"?|'[^']*'?)?)?",
    re.IGNORECASE,
)
_REFERENCE = re.compile(
    r"&(?:#[xX](?P<hex>[0-9a-fA-F]*);?|#(?P<dec>[0-9]*);?|(?P<name>[^\W\d][\w.:-]*)(?P<end>;?))"
)
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_HIGH_SURROGATE = re.compile(r"[\ud800-\udbff]")
_LOW_SURROGATE = re.compile(r"[\udc00-\udfff]")
_INVALID = r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"


def repair_html(source: str) -> str:
    """`source` in a form with one reading."""
    if re.fullmatch(_PLAIN, source):
        return source
    source = _decodable(source)
    pieces: list[str] = []
    position = 0
    while position < len(source) and source[position] != "\0":  # a NUL between two things ended the document
        text, position = _next_piece(source, position)
        pieces.append(text)
    return "".join(pieces)


def _decodable(source: str) -> str:
    """`source` as the old parser's input buffer was decoded, which surrogates without a partner upset.

    Among wider characters each surrogate is U+FFFD. Otherwise two in a row are one character, a low one alone
    is nothing, and a high one alone ends the document.
    """
    if not _SURROGATE.search(source):
        return source
    if max(source) > "\uffff":
        return _SURROGATE.sub("\ufffd", source)
    paired = source.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return _LOW_SURROGATE.sub("", _HIGH_SURROGATE.split(paired, maxsplit=1)[0])


def _next_piece(source: str, position: int) -> tuple[str, int]:
    """Rewritten text of what stands at `position`, and where the next thing begins."""
    if run := _STEP.match(source, position):
        return _escape(run.group().replace("\0", " ")), run.end()
    if source[position] == "&":
        return _reference(source, position)
    follow = source[position + 1 : position + 2]
    if follow == "/":
        return _end_tag(_before_nul(source, position), position)
    if follow == "!" and (end := _comment_end(source, position)):
        return "", end
    if follow == "!" and (end := _doctype_end(_before_nul(source, position), position)):
        # a tag's end or a declaration right behind a doctype is text
        return _text_after_doctype(source, end)
    if follow == "?":
        return _instruction(source, position)
    if follow.isascii() and follow.isalpha():
        return _start_tag(source, position)
    return "&lt;", position + 1


def _before_nul(source: str, position: int) -> str:
    """`source` up to the first NUL at or behind `position`: there a tag ended."""
    nul = source.find("\0", position)
    return source if nul < 0 else source[:nul]


def _escape(text: str) -> str:
    text = re.sub(_INVALID, "", text)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\r", "&#13;")


def _decode(match: re.Match[str]) -> str:
    """The text of one reference. A name counts only when it is known and closed by a semicolon."""
    if match["name"]:
        name = match["name"]
        code = 39 if name == "apos" else name2codepoint.get(name)
        return chr(code) if code and match["end"] else match.group()
    digits = match["hex"] if match["hex"] is not None else match["dec"]
    code = int(digits or "0", 16 if match["hex"] is not None else 10) if len(digits) < 4000 else 0x110000
    return re.sub(_INVALID, "", chr(code)) if code < 0x110000 else ""


def _reference(source: str, position: int) -> tuple[str, int]:
    match = _REFERENCE.match(source, position)
    if match is None:
        return "&amp;", position + 1
    text = _decode(match)
    end = match.end("name") if match["name"] and text == match.group() else match.end()
    return _escape(text if end == match.end() else source[position:end]), end


def _skip_past(source: str, position: int, mark: str) -> int:
    found = source.find(mark, position)
    return len(source) if found < 0 else found + len(mark)


def _end_tag(source: str, position: int) -> tuple[str, int]:
    name = _TAG_NAME.match(source, position + 2)
    if name is None:  # only the two characters go, what follows is text
        return "", position + 2
    return f"</{_shown_name(name.group())}>", _skip_past(source, name.end(), ">")


def _comment_end(source: str, position: int) -> int | None:
    """End of the comment that begins here; a comment leaves no trace in the tree."""
    if not source.startswith("<!--", position):
        return None
    closing = _COMMENT_END.search(source, position + 4)
    return closing.end() if closing else len(source)


def _doctype_end(source: str, position: int) -> int | None:
    """End of the doctype that begins here; what its quotes hold does not end it."""
    match = _DOCTYPE.match(source, position)
    return _skip_past(source, match.end(), ">") if match else None


def _text_after_doctype(source: str, end: int) -> tuple[str, int]:
    follow = source[end + 1 : end + 2]
    is_text = source.startswith("<", end) and (follow == "/" or follow == "!")
    return ("&lt;", end + 1) if is_text and not source.startswith("<!--", end) else ("", end)


def _instruction(source: str, position: int) -> tuple[str, int]:
    """A processing instruction is a node with its content as text; one that never ends is nothing."""
    target = _INSTRUCTION_TARGET.match(source, position + 2)
    if target is None:
        return "", position + 2
    end = source.find(">", target.end())
    if end < 0:
        return "", len(source)
    content = _escape(source[target.end() : end].replace("\0", " "))
    return f"<{INSTRUCTION}>{content}</{INSTRUCTION}>", end + 1


def _shown_name(name: str) -> str:
    name = name.lower()
    return f"{name}-element" if name in _NEWLY_RAW else name


def _start_tag(source: str, position: int) -> tuple[str, int]:
    whole, source = source, _before_nul(source, position)
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
    closing = "/>" if source.startswith("/", position) else ">"
    position = min(position + len(closing), len(source))
    if name in _RAW_TEXT and closing == ">":
        return _raw_text(whole, position, f"<{name}{shown}>", name)
    return f"<{name}{shown}{closing}", position


def _raw_text(source: str, position: int, opening: str, name: str) -> tuple[str, int]:
    """`opening` and its text up to the end tag. End tags right behind it are read: some close it at once."""
    while match := _END_TAG.match(source, position):
        if match.group(1).lower() in _CLOSES_RAW_TEXT:
            return f"{opening}</{name}>", position
        if match.group(1).lower() == name:
            break
        position = match.end()
    end = re.compile(f"</{name}", re.IGNORECASE).search(source, position)
    stop = end.start() if end else len(source)
    return opening + re.sub(_INVALID, "", source[position:stop].replace("\0", " ")), stop


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
