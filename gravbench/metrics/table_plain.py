"""The short way through table normalisation, for markup that any parser reads alike.

Model output is nearly always a proper tree of table, tr, td, th and thead tags around plain text. For
such a string, rewriting tags one by one gives what parsing, editing and printing a DOM gives, about
thirty times faster. Anything else returns `None`, and the caller takes the long way.
"""

from __future__ import annotations

import re
from collections.abc import Callable

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
