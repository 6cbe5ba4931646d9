"""HTML table -> the normal form that OmniDocBench v1.6 compares (sections 7.1, 7.2).

The normal form is a string on purpose: the official scorer decodes entities *before* a second parser
reads the result, so `&lt;` becomes a real `<` and may swallow what follows. Building the tree of the
normal form is left to `table_tree`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache

from gravbench.metrics.table_markup import rewrite_markup

_TABLE_START = re.compile(r"<table\b[^>]*>", re.IGNORECASE)
_TABLE_END = re.compile(r"</table>", re.IGNORECASE)
_DROPPED_ATTRIBUTES = tuple(
    re.compile(rf' {name}=".*?"') for name in ("style", "height", "width", "align", "class")
)
_TBODY = re.compile(r"</?tbody>")
_SPACE_RUN = re.compile(r"\s+")
_COLGROUP = re.compile(r"<colgroup>.*?</colgroup>")
_BARE_TAGS = tuple(f"<{slash}{name}>" for name in ("sup", "sub", "span", "div", "p") for slash in ("", "/"))

_OPEN = '<html><body><table border="1" >'
_CLOSE = "</table></body></html>"

# Textual replacement in this order, as officially: a name is replaced wherever its letters stand.
_SYMBOLS: tuple[tuple[str, str], ...] = (
    ("\\checkmark", "√"), ("\\checked", "√"), ("\\surd", "√"),
    ("\\times", "×"), ("\\xmark", "×"), ("\\crossmark", "×"),
    ("\\pm", "±"), ("\\mp", "∓"),
    ("\\alpha", "α"), ("\\beta", "β"), ("\\gamma", "γ"), ("\\gama", "γ"), ("\\mu", "μ"),
    ("\\lambda", "λ"), ("\\theta", "θ"), ("\\eta", "η"), ("\\pi", "π"), ("\\rho", "ρ"),
    ("\\sigma", "σ"), ("\\omega", "ω"), ("\\delta", "δ"), ("\\Delta", "Δ"),
    ("\\epsilon", "ε"), ("\\varepsilon", "ε"), ("\\phi", "φ"), ("\\varphi", "φ"), ("\\tau", "τ"),
    ("\\partial", "∂"), ("\\varnothing", "∅"), ("\\emptyset", "∅"), ("\\sim", "～"),
)  # fmt: skip
_GLYPHS = str.maketrans(
    {**dict.fromkeys("✓✔☑✅🗸", "√"), **dict.fromkeys("✗✘✕✖☒❌╳⨯", "×"), "Ø": "∅", "∼": "～", "〜": "～"}
)
_UNESCAPED = re.compile(r"\\([%#&_])")
_WRAPPERS = (("$$", "$$"), ("\\[", "\\]"), ("\\(", "\\)"), ("$", "$"))
MAX_WRAPPED_CHARS = 128
# Words of plain ASCII or common Han characters, one blank apart: in normal form already, as most cells are.
_NORMAL_ALREADY = re.compile(
    r"(?:[!-#%-,.-;=?-\[\]-~\u4e00-\u9fa5]+(?: [!-#%-,.-;=?-\[\]-~\u4e00-\u9fa5]+)*)?"
)
_LONE_DASHES = frozenset("-–−－")


def normalize_cell_text(text: str) -> str:
    """One text node of a cell in normal form; the empty string stays empty.

    NFKC, blanks, LaTeX names and look-alike glyphs to one symbol each, math delimiters around the
    whole text removed layer by layer, a lone dash made an em dash, white space collapsed.
    """
    if _NORMAL_ALREADY.fullmatch(text):
        return text
    text = unicodedata.normalize("NFKC", text).replace("\xa0", " ").replace("\u200b", "")
    text = _UNESCAPED.sub(r"\1", _symbols(text))
    text = _symbols(_strip_math_delimiters(text))
    if text.strip() in _LONE_DASHES:
        return "—"
    return _SPACE_RUN.sub(" ", text).strip()


def _symbols(text: str) -> str:
    if "\\" in text:
        for name, symbol in _SYMBOLS:
            text = text.replace(name, symbol)
    return text.translate(_GLYPHS)


def _strip_math_delimiters(text: str) -> str:
    """Delimiters around the whole text, layer by layer; content of 1 to 128 characters without `$ < >`."""
    text = text.strip()
    while text[:1] in ("$", "\\"):
        inner = next(filter(None, (_unwrapped(text, left, right) for left, right in _WRAPPERS)), "")
        if not inner:
            return text
        text = inner
    return text


def _unwrapped(text: str, left: str, right: str) -> str:
    if not (text.startswith(left) and text.endswith(right)) or len(text) < len(left) + len(right):
        return ""
    inner = text[len(left) : len(text) - len(right)].strip()
    return "" if len(inner) > MAX_WRAPPED_CHARS or any(char in inner for char in "<>$") else inner


@lru_cache(maxsize=256)
def normalize_html_table(source: str) -> str:
    """The table of `source` as `<html><body><table border="1" >…</table></body></html>`.

    Empty when `source` has no lower-case `<table` (blanks ignored). Two tables in one string become
    one table with an inner table, because the body is taken greedily. Empty as well beyond the work
    limits of `table_markup`, which only markup in tag soup can reach.
    `RefusedMarkupError` for markup that no parser takes.
    """
    if "<table" not in source.replace(" ", "").replace("'", '"'):
        return ""
    if (normal := normal_table(source)) is not None:
        return normal
    rewritten = _rewritten(source)
    return "" if rewritten is None else _finish(rewritten)


# A table of nothing but cells that are in normal form already; blanks with a line end may stand between tags.
_GAP = r"(?:[ \t]*\n[ \t\n]*)?"
_WORD = r"[!-#%'-;=?-\[\]-~\u4e00-\u9fa5]++"
_NORMAL_TABLE = re.compile(
    rf"<table(?: border=\"[0-9]*\")? ?>{_GAP}(?P<rows>(?:<tr>{_GAP}"
    rf"(?:<td(?: colspan=\"[0-9]*\")?(?: rowspan=\"[0-9]*\")?>(?!-<)(?:{_WORD}(?: {_WORD})*+)?</td>{_GAP})*+"
    rf"</tr>{_GAP})*+)</table>"
)


_GAPS = re.compile(r">[ \t\n]+")


def normal_table(source: str) -> str | None:
    """The normal form of a table that is in it but for gaps between tags, as most are; None for any other."""
    found = _NORMAL_TABLE.fullmatch(source)
    if found is None:
        return None
    rows = found["rows"]
    return _OPEN + (_GAPS.sub(">", rows) if "\n" in rows else rows) + _CLOSE


def _rewritten(source: str) -> str | None:
    plain = normalize_plain_table(source, normalize_cell_text)
    if plain is not None:
        return plain
    return rewrite_markup(source, normalize_cell_text)


def _finish(text: str) -> str:
    """From the rewritten markup with entities decoded to the final string."""
    text = _greedy_body(unicodedata.normalize("NFKC", text.replace("\n", "")).strip())
    for pattern in _DROPPED_ATTRIBUTES:
        text = pattern.sub("", text)
    # A run of white space without a newline between two tags stays as one blank; with a newline it is gone.
    text = _OPEN + _SPACE_RUN.sub(" ", _TBODY.sub("", text)) + _CLOSE
    for tag in _BARE_TAGS:
        text = text.replace(tag, "")
    end = text.rfind("</colgroup>") + 1
    return _COLGROUP.sub("", text[: end + 10]) + text[end + 10 :] if end else text


def _greedy_body(text: str) -> str:
    """What `<table\\b[^>]*>(.*)</table>` captures, ignoring case; empty without a match. Linear time."""
    end = max((match.start() for match in _TABLE_END.finditer(text)), default=-1)
    opening = _TABLE_START.search(text, 0, end) if end >= 0 else None
    return text[opening.end() : end] if opening else ""


def table_text_lines(normalized: str) -> list[str]:
    """The rows of a table in normal form as text lines: cells without any white space, joined by a blank.

    Empty cells and empty rows are left out, markup that BeautifulSoup refuses has no lines, and a table
    without rows gives one line a cell. All blanks of the markup go first, so `a < b` opens a tag `b` that
    swallows the end of its cell, as officially.
    """
    from bs4 import BeautifulSoup, ParserRejectedMarkup  # here: slow to import, and scoring never needs it

    packed = _INLINE_MATH.sub(r"\1", _SPACE_RUN.sub("", normalized))
    for name in ("colspan", "rowspan", "border"):
        packed = packed.replace(f'{name}="', f' {name}="')
    try:
        soup = BeautifulSoup(packed, "html.parser")
    except (ParserRejectedMarkup, ValueError):
        return []
    rows = soup.find_all("tr")
    groups = [row.find_all("td") for row in rows] if rows else [[cell] for cell in soup.find_all("td")]
    lines = (" ".join(filter(None, (cell.get_text(strip=True) for cell in cells))) for cells in groups)
    return [line for line in lines if line]


_INLINE_MATH = re.compile(r"\$([^$<>]+)\$")

# Text before a tag, then the tag. Text with `<`, `>` or an ampersand needs a real parser.
_PIECE = re.compile(
    r"([^<>&\0]*)<(/?)(table|tr|td|th|thead|tbody|html|body)"
    r"((?: (?:colspan|rowspan|border|style|class|width|height|align)=\"[^\"<>&\0\n]*\")*) ?>"
)
_ATTRIBUTE = re.compile(r" ([a-z]+)=\"[^\"]*\"")
_ASCII_SPACES = " \n\t\f\r"
_UNWRAPPED = frozenset({"thead", "tbody"})


def normalize_plain_table(source: str, cell_text: Callable[[str], str]) -> str | None:
    """Markup of `source` rewritten as the DOM route would, or `None` when it is not plain.

    Plain: only the tags above, lower case, properly nested and closed, attributes in double quotes and
    not repeated, no reference, no comment, cells that hold text only.
    """
    pieces: list[str] = []
    stack: list[str] = []
    pending = ""
    position = 0
    while match := _PIECE.match(source, position):
        position = match.end()
        text, slash, name, attributes = match.groups()
        in_cell = bool(stack) and stack[-1] in ("td", "th")
        if slash:
            if attributes or not stack or stack.pop() != name:
                return None
        elif in_cell or len(stack) > 16:
            return None
        else:
            stack.append(name)
        pending += _reduced(text)
        if name in _UNWRAPPED:
            continue  # what stands on both sides of such a tag is one text in the second parse
        pieces.append(cell_text(pending) if in_cell else _reduced(pending))
        pieces.append(f"<{slash}{'td' if name == 'th' else name}{_sorted_attributes(attributes)}>")
        pending = ""
    rest = source[position:]
    if stack or not position or any(character in rest for character in "<>&\0"):
        return None
    return "".join(pieces) + _reduced(pending + _reduced(rest))


def _reduced(text: str) -> str:
    """Nothing but white space shrinks to one character, as BeautifulSoup keeps it."""
    if text and not text.strip(_ASCII_SPACES):
        return "\n" if "\n" in text else " "
    return text


def _sorted_attributes(attributes: str) -> str:
    """Attributes by name, as BeautifulSoup prints them; of a repeated name the last one counts."""
    if attributes.count('="') < 2:
        return attributes
    return "".join(text for _, text in sorted({m[1]: m[0] for m in _ATTRIBUTE.finditer(attributes)}.items()))
