"""What is too large to stand in the page at once: gzip, then base64, unpacked by the reader's browser.

Unpacking takes a moment that a page about to be printed does not give; what is to be printed is plain JSON.
"""

from __future__ import annotations

import base64
import gzip
from typing import Any

import orjson
from markupsafe import Markup

from gravbench.store.schema import canonical_json


def packed(value: Any) -> str:
    """`value` as JSON, gzip without a clock, base64: letters that mean nothing to HTML."""
    return base64.b64encode(gzip.compress(canonical_json(value), compresslevel=9, mtime=0)).decode("ascii")


def embedded(value: Any) -> Markup:
    """`value` as JSON that a script element holds as it is: no letter in it means anything to HTML."""
    text = canonical_json(value).decode("utf-8")
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return Markup(text)


def unpacked(text: str) -> Any:
    """The inverse of `packed`."""
    return orjson.loads(gzip.decompress(base64.b64decode(text)))
