"""Text from models and files, made safe to look at: nothing in it can hide or turn the text around it."""

from __future__ import annotations

import re

_HIDDEN = re.compile(
    "[\u0000-\u0008\u000b\u000c\u000d\u000e-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    """`text` with controls, direction marks and invisible characters written out as ⟨U+XXXX⟩.

    Tab and line feed stay, and so do the joiners that scripts and emoji need (U+200C, U+200D).
    """
    return _HIDDEN.sub(lambda match: f"⟨U+{ord(match[0]):04X}⟩", text)
