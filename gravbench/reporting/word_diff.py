"""Differences between ground truth and prediction, word by word, as segments to be shown."""

from __future__ import annotations

import re
from typing import Literal

from rapidfuzz.distance import Levenshtein

Segment = tuple[Literal["=", "-", "+"], str]
"""Kept, only in the reference, only in the prediction."""

MAX_CELLS = 4_000_000
"""Words x words up to which the alignment is found; it needs about a quarter byte a cell."""

_WORD = re.compile(
    r"[\u2e80-\u9fff\uf900-\ufaff\uac00-\ud7af]"  # ideographs and syllables stand alone
    r"|\s+|[^\W\u2e80-\u9fff\uf900-\ufaff\uac00-\ud7af]+|[^\w\s]"
)


def word_diff(reference: str, prediction: str) -> tuple[Segment, ...]:
    """Segments whose `=` and `-` spell the reference and whose `=` and `+` spell the prediction.

    Common beginnings and ends are taken first. A middle of more than `MAX_CELLS` word pairs is shown as
    replaced whole: its alignment would need gigabytes.
    """
    a, b = _WORD.findall(reference), _WORD.findall(prediction)
    start = _common(a, b)
    end = _common(a[start:][::-1], b[start:][::-1])
    left, right = a[start : len(a) - end], b[start : len(b) - end]
    parts: list[Segment] = [("=", "".join(a[:start]))]
    if len(left) * len(right) > MAX_CELLS:
        parts += [("-", "".join(left)), ("+", "".join(right))]
    else:
        for op in Levenshtein.opcodes(left, right):
            gone = "".join(left[op.src_start : op.src_end])
            if op.tag == "equal":
                parts.append(("=", gone))
            else:
                parts += [("-", gone), ("+", "".join(right[op.dest_start : op.dest_end]))]
    parts.append(("=", "".join(a[len(a) - end :]) if end else ""))
    return _joined(parts)


def _common(a: list[str], b: list[str]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _joined(parts: list[Segment]) -> tuple[Segment, ...]:
    """Without empty segments; neighbours of one kind joined."""
    found: list[Segment] = []
    for kind, text in parts:
        if text and found and found[-1][0] == kind:
            found[-1] = (kind, found[-1][1] + text)
        elif text:
            found.append((kind, text))
    return tuple(found)
