"""What surrounds a formula: fences, dollar signs, `\\[ \\]`, `\\( \\)`, and equation tags.

Two strippers exist because the OmniDocBench v1.6 scorer has two: `strip_wrappers` runs right before CDM on
every side of a pair; `strip_delimiters` belongs to the matrix variants and peels pairs until none is left.
"""

from __future__ import annotations

_PAIRS = (("$$", "$$"), ("\\[", "\\]"), ("\\(", "\\)"), ("$", "$"))


def strip_fence(text: str) -> str:
    """What stands behind the last "```latex" and before the next "```"; all of it without a fence."""
    return text.split("```latex")[-1].split("```")[0]


def strip_wrappers(text: str) -> str:
    """Formula without outer blanks, `$` runs at either end, one `\\[ \\]`, one `\\( \\)`, and its tags."""
    text = text.strip().strip("$").strip().strip("$").strip()
    for opening, closing in _PAIRS[1:3]:
        if text.startswith(opening) and text.endswith(closing):
            text = text[2:-2].strip()
    return strip_tags(text).strip()


def strip_delimiters(text: str) -> str:
    """Formula with matched outer delimiter pairs removed, again and again."""
    text = text.strip()
    peeled = True
    while text and peeled:
        peeled = False
        for opening, closing in _PAIRS:
            long_enough = len(text) >= len(opening) + len(closing)
            if long_enough and text.startswith(opening) and text.endswith(closing):
                text = text[len(opening) : len(text) - len(closing)].strip()
                peeled = True
                break
    return text


def strip_tags(text: str) -> str:
    """Formula without `\\tag{..}`, `\\tag*{..}` (balanced argument), `\\notag` and `\\nonumber`."""
    return _strip_tag_command(text).replace("\\notag", "").replace("\\nonumber", "")


def _strip_tag_command(text: str) -> str:
    """Remove every `\\tag` with its group; `\\tagform` stays, and an open group loses only the name."""
    command = "\\tag"
    start = text.find(command)
    while start >= 0:
        after = start + len(command)
        if after < len(text) and text[after].isalpha():
            start = text.find(command, after)
            continue
        opening = _group_start(text, after)
        if opening is None:
            start = text.find(command, after)
            continue
        end = _group_end(text, opening)
        text = text[:start] + text[after if end is None else end :]
        start = text.find(command, start)
    return text


def _group_start(text: str, index: int) -> int | None:
    """Index of the `{` behind optional blanks and one optional star."""
    index = _skip_blanks(text, index)
    if text.startswith("*", index):
        index = _skip_blanks(text, index + 1)
    return index if text.startswith("{", index) else None


def _skip_blanks(text: str, index: int) -> int:
    while index < len(text) and text[index].isspace():
        index += 1
    return index


def _group_end(text: str, opening: int) -> int | None:
    """Index behind the `}` that closes the `{` at `opening`; `None` when it stays open."""
    depth = 0
    for index in range(opening, len(text)):
        depth += {"{": 1, "}": -1}.get(text[index], 0)
        if depth == 0:
            return index + 1
    return None
