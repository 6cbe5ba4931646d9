"""Which texts belong to training and which are held out: decided by the text alone, never by an index."""

from __future__ import annotations

import hashlib
from typing import Literal

Split = Literal["train", "heldout"]
SPLITS: tuple[Split, ...] = ("train", "heldout")


def split_of(text: str) -> Split:
    """`heldout` for one text in about ten, by the first byte of its SHA-256."""
    return "heldout" if hashlib.sha256(text.encode("utf-8")).digest()[0] % 10 == 0 else "train"
