r"""Circled characters become what they circle: `①` -> `1`, `ⓐ` -> `a`, `\textcircled{x}` -> `x`."""

from __future__ import annotations

import re

_COMMAND = re.compile(r"\\textcircled\s*\{\s*([^{}]+?)\s*\}")
_CHARACTERS = {0x2460 + i: str(i + 1) for i in range(20)}  # nothing above ⑳ (quirk)
_CHARACTERS |= {0x24D0 + i: chr(ord("a") + i) for i in range(26)}
_CHARACTERS |= {0x24B6 + i: chr(ord("A") + i) for i in range(26)}


def replace_circled(text: str) -> str:
    """`text` with circled digits 1..20 and letters replaced by the plain ones."""
    if "\\textcircled" in text:
        text = _COMMAND.sub(lambda match: match.group(1).strip(), text)
    return text if text.isascii() else text.translate(_CHARACTERS)
