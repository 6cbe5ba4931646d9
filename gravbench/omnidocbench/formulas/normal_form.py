r"""Formula normalisation of the OmniDocBench v1.6 scorer (its `normalized_formula`), step by step.

Several steps work on text rather than on LaTeX; those accidents move published digits and are kept, each
marked *quirk*.
"""

from __future__ import annotations

import re

_DELIMITERS = (("$$", "$$"), ("\\[", "\\]"), ("\\(", "\\)"), ("$", "$"))
_INNER_MATH = re.compile(r"\\\[(.+?)(?<!\\)\\\]|\\\((.+?)(?<!\\)\\\)")
_THIN_SPACES = re.compile(r"\\[!,;:]")
_ALIGNMENT = re.compile(r"(?<!\\)&")
_DROPPED = (
    ("\\hspace", re.compile(r"\\hspace\{.*?\}")),
    ("\\begin", re.compile(r"\\begin\{.*?\}")),
    ("\\end", re.compile(r"\\end\{.*?\}")),
    ("\\arraycolsep", re.compile(r"\\arraycolsep.*?\}")),
    ("{", re.compile(r"\{[lcr| ]+\}")),
)
"""What a pattern begins with, and the pattern."""
# Quirk: plain text deletions, in this order, so prefixes of longer names go too:
# \leftarrow -> arrow, \texttt -> tt, \bmod -> od, \textit -> it.
_DELETED_NAMES = (
    *("\\mathbf", "\\mathrm", "\\mathnormal", "\\mathit", "\\mathbb", "\\mathcal", "\\mathscr"),
    *("\\mathfrak", "\\mathsf", "\\mathtt", "\\textbf", "\\text", "\\boldmath", "\\boldsymbol"),
    *("\\operatorname", "\\bm", "\\symbfit", "\\mathbfcal", "\\symbf", "\\scriptscriptstyle", "\\notag"),
    *("\\setlength", "\\coloneqq", "\\space", "\\thickspace", "\\thinspace", "\\medspace"),
    *("\\nobreakspace", "\\negmedspace", "\\quad", "\\qquad", "\\enspace", "\\substackw", " ", "$$"),
    *("\\left", "\\right", "\\displaystyle", "\\text"),
)
_SIMPLE_GROUP = re.compile(r"\{([A-Za-z0-9.+\-]+)\}")
_OPENING_RUN = re.compile(r"\{\{+")
_CLOSING_RUN = re.compile(r"}}+")
_INNERMOST = re.compile(r"\{([^{}]{1,160})\}")
_UNWRAPPING = ("=", "+", "-", "\\\\", "^", "_", "[", "]", "(", ")")
_SPACE = re.compile(r"\s+")
_BRACE = re.compile(r"[{}]")


def strip_delimiters(text: str) -> str:
    r"""Remove enclosing `$$`, `\[ \]`, `\( \)`, `$` for as long as there are any."""
    text = text.strip().strip("\n")
    while text:
        for left, right in _DELIMITERS:
            if text.startswith(left) and text.endswith(right) and len(text) >= len(left) + len(right):
                text = text[len(left) : len(text) - len(right)].strip()
                break
        else:
            break
    return text


def _group_end(text: str, start: int) -> int | None:
    """Index behind the group whose content begins at `start`; None when it never closes."""
    depth = 1
    for index in range(start, len(text)):
        if text[index] == "{":
            depth += 1
        elif text[index] == "}":
            depth -= 1
            if depth == 0:
                return index + 1
    return None


def _skip_spaces(text: str, index: int) -> int:
    while index < len(text) and text[index].isspace():
        index += 1
    return index


def _brace_partners(text: str) -> dict[int, int]:
    """Index of every `{` that closes -> index of its `}`."""
    partners: dict[int, int] = {}
    stack: list[int] = []
    for brace in _BRACE.finditer(text):
        if brace.group() == "{":
            stack.append(brace.start())
        elif stack:
            partners[stack.pop()] = brace.start()
    return partners


def _drop_tag_commands(text: str) -> str:
    if "\\tag" not in text:
        return text
    partners = _brace_partners(text)
    pieces: list[str] = []
    done = search = 0
    while (start := text.find("\\tag", search)) >= 0:
        search = after = start + len("\\tag")
        if after < len(text) and text[after].isalpha():
            continue
        index = _skip_spaces(text, after)
        if index < len(text) and text[index] == "*":
            index = _skip_spaces(text, index + 1)
        if index >= len(text) or text[index] != "{":
            continue
        # an argument that never closes loses its command only
        search = partners[index] + 1 if index in partners else after
        pieces.append(text[done:start])
        done = search
    return "".join((*pieces, text[done:]))


def strip_tags(text: str) -> str:
    r"""Remove `\tag{..}`, `\tag*{..}`, `\notag` and `\nonumber`."""
    if "\\" not in text:
        return text
    return _drop_tag_commands(text).replace("\\notag", "").replace("\\nonumber", "")


def _drop_phantoms(text: str) -> str:
    command = "\\phantom"
    while (start := text.find(command + "{")) >= 0:
        end = _group_end(text, start + len(command) + 1)
        if end is None:
            return text[:start] + text[start + len(command) :]
        text = text[:start] + text[end:]
    return text


def _unwrap_group(match: re.Match[str]) -> str:
    inner = match.group(1)
    return inner if any(token in inner for token in _UNWRAPPING) else match.group(0)


def _simplify_braces(text: str) -> str:
    """Unwrap atoms and operator-bearing groups until nothing changes."""
    previous = None
    while text != previous and ("{" in text or "}" in text):
        previous = text
        text = _SIMPLE_GROUP.sub(r"\1", text)
        text = text.replace("{}", "")
        text = _OPENING_RUN.sub("{", text)
        text = _CLOSING_RUN.sub("}", text)
        text = _INNERMOST.sub(_unwrap_group, text)
    return text


def normalized_formula(text: str) -> str:
    """Canonical text of one formula, lower case and without whitespace; '' when nothing is left."""
    text = strip_tags(strip_delimiters(replace_circled(text)))
    if ("\\]" in text or "\\)" in text) and (inner := _INNER_MATH.search(text)):
        text = (inner.group(1) or inner.group(2) or "").strip()
    text = _drop_phantoms(text)
    if "\\" in text:
        text = _THIN_SPACES.sub("", text)
    if "&" in text:
        text = _ALIGNMENT.sub("", text)
    text = text.replace("\\mid", "|").replace("\\vert", "|")  # quirk: textual, \middle -> |dle
    text = text.replace("\\{", "").replace("\\}", "").replace("~", "")
    for start, pattern in _DROPPED:
        if start in text:
            text = pattern.sub("", text)
    text = text.strip(".")
    for name in _DELETED_NAMES:
        text = text.replace(name, "")
    return _SPACE.sub("", _simplify_braces(text).lower())


def cdm_spelling(latex: str, *, fenced: bool = False) -> str:
    """A formula as CDM gets it: without dollars at its ends, outer brackets and tags.

    `fenced`: only what stands behind the last "```latex" and before the next "```" counts.
    """
    if fenced:
        latex = latex.split("```latex")[-1].split("```")[0]
    text = latex.strip().strip("$").strip().strip("$").strip()
    for left, right in (("\\[", "\\]"), ("\\(", "\\)")):
        if text.startswith(left) and text.endswith(right):
            text = text[2:-2].strip()
    return strip_tags(text).strip()


_COMMAND = re.compile(r"\\textcircled\s*\{\s*([^{}]+?)\s*\}")
_CHARACTERS = {0x2460 + i: str(i + 1) for i in range(20)}  # nothing above ⑳ (quirk)
_CHARACTERS |= {0x24D0 + i: chr(ord("a") + i) for i in range(26)}
_CHARACTERS |= {0x24B6 + i: chr(ord("A") + i) for i in range(26)}


def replace_circled(text: str) -> str:
    """`text` with circled digits 1..20 and letters replaced by the plain ones."""
    if "\\textcircled" in text:
        text = _COMMAND.sub(lambda match: match.group(1).strip(), text)
    return text if text.isascii() else text.translate(_CHARACTERS)
