"""The long way through table normalisation: any markup, read and printed in one pass (section 7.1).

Officially BeautifulSoup 4.11 builds a tree with `html.parser`; tags are renamed and unwrapped in it and it
is printed; the print is parsed *again*, and the text nodes of that second tree are normalised and printed.
So text on both sides of an unwrapped tag is one node when it is normalised. Here the same parser's events
are printed as they come, twice, as the edits would leave them: the same string, whatever BeautifulSoup is
installed, in time linear in the input.
"""

from __future__ import annotations

import html
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html.entities import html5
from html.parser import HTMLParser

# Work limits. Deeper trees exhaust the official recursion; of so many tags no score survives its time limit.
# Declarations, comments and tags that never end each make `html.parser` search the rest of the source.
MAX_DEPTH = 480
MAX_TAGS = 200_000
MAX_DECLARATIONS = 2_000

Attributes = Sequence[tuple[str, str | None]]

_UNWRAPPED = frozenset({"thead", "tbody", "span"})
_VERBATIM = frozenset({"script", "style"})
_KEEPS_SPACE = frozenset({"pre", "textarea"})
_VOID = frozenset(
    {
        *("area", "base", "br", "col", "embed", "hr", "img", "input", "keygen", "link", "menuitem", "meta"),
        *("param", "source", "track", "wbr", "basefont", "bgsound", "command", "frame", "image", "isindex"),
        *("nextid", "spacer"),
    }
)
# Attributes that hold lists: their values are split at white space and joined by blanks.
_LISTS = frozenset({"class", "accesskey", "dropzone"})
_LISTS_OF = {
    "a": {"rel", "rev"}, "link": {"rel", "rev"}, "area": {"rel"}, "td": {"headers"}, "th": {"headers"},
    "form": {"accept-charset"}, "object": {"archive"}, "icon": {"sizes"}, "iframe": {"sandbox"},
    "output": {"for"},
}  # fmt: skip
_ASCII_SPACES = " \n\t\f\r"
_NON_SPACE = re.compile(r"\S+")


class RefusedMarkupError(ValueError):
    """`html.parser` refuses this markup (an impossible `<![`, a reference of thousands of digits)."""


def rewrite_markup(source: str, cell_text: Callable[[str], str]) -> str | None:
    """`source` with th as td, thead, tbody and span unwrapped, math as `$alttext$`, cells normalised.

    Entities are decoded. `None` beyond a work limit. Raises `RefusedMarkupError`.
    """
    if over_limit(source) is not None:
        return None
    try:
        return _printed(_printed(source, _Editor()), _CellNormalizer(cell_text))
    except RecursionError:  # deeper than the official limit
        return None
    except (AssertionError, ValueError) as error:
        raise RefusedMarkupError(f"html.parser refuses the markup: {error}") from error


def over_limit(source: str) -> str | None:
    """Why markup is more than is read here, and counts as empty; `None` for any other."""
    if (tags := source.count("<")) > MAX_TAGS:
        return f"{tags:,} '<', more than {MAX_TAGS:,}"
    declarations = source.count("<!") + source.count("<?") + source.count("<", source.rfind(">") + 1)
    if declarations > MAX_DECLARATIONS:
        return f"{declarations:,} markup declarations, more than {MAX_DECLARATIONS:,}"
    return None


def _printed(source: str, printer: _Printer) -> str:
    printer.feed(source)
    printer.close()
    return printer.result()


@dataclass(slots=True)
class _Open:
    """An open tag: name, place of its opening in the output (`None`: not printed), any child printed."""

    name: str
    opening: int | None
    has_child: bool = False


class _Printer(HTMLParser, ABC):
    """Prints while reading. Tags close as BeautifulSoup closes them: an end tag pops up to its own name."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self._pieces: list[str] = []
        self._data: list[str] = []
        self._stack: list[_Open] = []
        self._counts: Counter[str] = Counter()
        self._closed_voids: list[str] = []

    # What the two passes do differently

    @abstractmethod
    def _prints(self, tag: str) -> bool:
        """Whether the tag itself appears."""

    def _shows(self) -> bool:
        """Whether what is read now appears."""
        return True

    @abstractmethod
    def _opening(self, tag: str, attrs: Attributes) -> str:
        """What an opening tag prints."""

    @abstractmethod
    def _closing(self, tag: str) -> str:
        """What a closing tag prints."""

    @abstractmethod
    def _text(self, text: str) -> str:
        """What text prints."""

    @abstractmethod
    def _special(self, text: str, before: str, behind: str) -> str:
        """A comment, declaration or the like."""

    def result(self) -> str:
        """What was printed, open tags closed."""
        self._end_data()
        while self._stack:
            self._pop()
        return "".join(self._pieces)

    # Events of html.parser

    def handle_starttag(self, tag: str, attrs: Attributes) -> None:
        self._start(tag, attrs)
        if tag in _VOID:
            self._end(tag)
            self._closed_voids.append(tag)

    def handle_startendtag(self, tag: str, attrs: Attributes) -> None:
        # BeautifulSoup 4.11 takes a `<br/>` after a `<br>` for the end of the earlier one and leaves it open.
        self._start(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._closed_voids:
            self._closed_voids.remove(tag)
        else:
            self._end(tag)

    def handle_data(self, data: str) -> None:
        self._data.append(data)

    def handle_charref(self, name: str) -> None:
        code = int(name[1:], 16) if name[:1] in ("x", "X") else int(name)
        text = bytes([code]).decode("windows-1252", "ignore") if code < 256 else ""
        if not text:
            text = chr(code) if 0 < code < 0x110000 else "\ufffd"
        self._data.append(text)

    def handle_entityref(self, name: str) -> None:
        self._data.append(html5.get(f"{name};", f"&{name}"))

    def handle_comment(self, data: str) -> None:
        self._preformatted(data, "<!--", "-->")

    def handle_decl(self, decl: str) -> None:
        self._preformatted(decl[len("DOCTYPE ") :], "<!DOCTYPE ", ">\n")

    def unknown_decl(self, data: str) -> None:
        if data.upper().startswith("CDATA["):
            self._preformatted(data[len("CDATA[") :], "<![CDATA[", "]]>")
        else:
            self._preformatted(data, "<?", "?>")

    def handle_pi(self, data: str) -> None:
        self._preformatted(data, "<?", ">")

    # Printing

    def _start(self, tag: str, attrs: Attributes) -> None:
        self._end_data()
        if len(self._stack) >= MAX_DEPTH:
            raise RecursionError
        printed = self._shows() and self._prints(tag)
        if printed:
            self._mark_child()
            self._pieces.append(self._opening(tag, attrs))
        self._stack.append(_Open(tag, len(self._pieces) - 1 if printed else None))
        self._counts[tag] += 1

    def _end(self, tag: str) -> None:
        self._end_data()
        while self._counts[tag] and self._pop() != tag:
            pass

    def _pop(self) -> str:
        closed = self._stack.pop()
        self._counts[closed.name] -= 1
        if closed.opening is not None:
            if closed.name in _VOID and not closed.has_child:
                self._pieces[closed.opening] = self._pieces[closed.opening][:-1] + "/>"
            else:
                self._pieces.append(self._closing(closed.name))
        return closed.name

    def _end_data(self) -> None:
        """Print the text gathered since the last tag."""
        if not self._data:
            return
        text = self._reduced("".join(self._data))
        self._data.clear()
        if self._shows():
            self._mark_child()
            self._pieces.append(self._text(text))

    def _preformatted(self, text: str, before: str, behind: str) -> None:
        self._end_data()
        if self._shows():
            self._mark_child()
            self._pieces.append(self._special(self._reduced(text), before, behind))

    def _reduced(self, text: str) -> str:
        """Nothing but white space shrinks to one character."""
        if text.strip(_ASCII_SPACES) or any(self._counts[name] for name in _KEEPS_SPACE):
            return text
        return "\n" if "\n" in text else " "

    def _mark_child(self) -> None:
        for parent in reversed(self._stack):
            if parent.opening is not None:
                parent.has_child = True
                return

    def _is_verbatim(self) -> bool:
        return bool(self._stack) and self._stack[-1].name in _VERBATIM


class _Editor(_Printer):
    """First pass: th as td, thead, tbody and span unwrapped, math as `$alttext$`; printed with references."""

    def _prints(self, tag: str) -> bool:
        return tag not in _UNWRAPPED

    def _shows(self) -> bool:
        return not self._counts["math"]

    def _opening(self, tag: str, attrs: Attributes) -> str:
        if tag == "math":
            # An empty alttext yields "$$", exactly as the official scorer leaves it.
            return _escaped(f"${dict(attrs).get('alttext') or ''}$")
        return f"<{_shown(tag)}{_attributes(tag, attrs, escaped=True)}>"

    def _closing(self, tag: str) -> str:
        return "" if tag == "math" else f"</{_shown(tag)}>"

    def _text(self, text: str) -> str:
        return text if self._is_verbatim() else _escaped(text)

    def _special(self, text: str, before: str, behind: str) -> str:
        return f"{before}{text}{behind}"


class _CellNormalizer(_Printer):
    """Second pass: every string in a cell normalised; printed with references decoded."""

    def __init__(self, cell_text: Callable[[str], str]) -> None:
        super().__init__()
        self._cell_text = cell_text

    def _prints(self, tag: str) -> bool:
        del tag
        return True

    def _opening(self, tag: str, attrs: Attributes) -> str:
        return f"<{html.unescape(tag)}{_attributes(tag, attrs, escaped=False)}>"

    def _closing(self, tag: str) -> str:
        return f"</{html.unescape(tag)}>"

    def _text(self, text: str) -> str:
        text = self._normalized(text)
        return html.unescape(text) if self._is_verbatim() else text

    def _special(self, text: str, before: str, behind: str) -> str:
        """Quirk: a comment in a cell whose own text is not in normal form becomes text."""
        normal = self._normalized(text)
        return html.unescape(f"{before}{text}{behind}") if normal == text else normal

    def _normalized(self, text: str) -> str:
        """Normalised once for every cell around it, as officially; that soon changes nothing any more."""
        for _ in range(self._counts["td"] + self._counts["th"]):
            before, text = text, self._cell_text(text)
            if text == before:
                break
        return text


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _shown(tag: str) -> str:
    return "td" if tag == "th" else tag


def _attributes(tag: str, attrs: Attributes, *, escaped: bool) -> str:
    """Attributes as BeautifulSoup prints them: by name, the last of a name, lists joined by blanks."""
    return "".join(
        f" {name if escaped else html.unescape(name)}={_quoted(tag, name, value or '', escaped=escaped)}"
        for name, value in sorted(dict(attrs).items())
    )


def _quoted(tag: str, name: str, value: str, *, escaped: bool) -> str:
    if name in _LISTS or name in _LISTS_OF.get(tag, ()):
        value = " ".join(_NON_SPACE.findall(value))
    single = '"' in value and "'" not in value
    if escaped:
        value = _escaped(value) if single else _escaped(value).replace('"', "&quot;")
    quote = "'" if single else '"'
    return f"{quote}{value}{quote}"
