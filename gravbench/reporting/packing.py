"""What is too large to stand in the page at once: gzip, then base64, unpacked by the reader's browser."""

from __future__ import annotations

import base64
import gzip
from typing import Any

import orjson

from gravbench.store.schema import canonical_json


def packed(value: Any) -> str:
    """`value` as JSON, gzip without a clock, base64: letters that mean nothing to HTML."""
    return base64.b64encode(gzip.compress(canonical_json(value), compresslevel=9, mtime=0)).decode("ascii")


def unpacked(text: str) -> Any:
    """The inverse of `packed`."""
    return orjson.loads(gzip.decompress(base64.b64decode(text)))
