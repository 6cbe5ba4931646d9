"""Markup rewritten so that every libxml2 reads it as the 2.9 series, the official one, did."""

from __future__ import annotations


def repair_html(source: str) -> str:
    """`source` up to its first NUL, lone surrogates replaced."""
    source = source.partition("\0")[0]
    return source.encode("utf-8", "replace").decode("utf-8")
