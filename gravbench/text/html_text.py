"""Text inside HTML: `div` blocks flattened, table cells read (bs4 with the `html.parser` builder)."""

from __future__ import annotations

import re

from bs4 import BeautifulSoup

_DIV = re.compile(r"<(div|dir)\b", re.IGNORECASE)
_INLINE_TAGS = ["span", "font", "b", "strong", "i", "em", "u", "a", "sup", "sub"]
_BLOCK_TAGS = ["div", "dir", "p", "li"]
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_NOT_PLAIN = re.compile(r"&|<!|<\?|<script|<style", re.IGNORECASE)
_ARITHMETIC = re.compile(r"[=+\-×÷/≈]|\\times|\\div|\\approx")


def flattened(text: str) -> str:
    """A paragraph that begins with `<div` or `<dir` and holds no table, as the text it shows."""
    stripped = text.strip()
    if not _DIV.match(stripped) or "<table" in stripped.lower():
        return stripped
    soup = BeautifulSoup(stripped, "html.parser")
    for tag in soup.find_all(["style", "script"]):
        tag.decompose()
    for tag in soup.find_all(_INLINE_TAGS):
        tag.unwrap()
    for tag in soup.find_all("br"):
        tag.replace_with("\n")
    for tag in soup.find_all(_BLOCK_TAGS):
        if not tag.contents or str(tag.contents[-1]) != "\n":
            tag.append("\n")
    shown = soup.get_text(separator="").replace("\xa0", " ")
    shown = re.sub(r"[ \t]*\n[ \t]*", "\n", shown)
    return "\n".join(line.strip() for line in shown.split("\n") if line.strip()) or stripped


def cell_texts(table: str) -> list[str]:
    """Text of every td and th in document order, nested ones included, whitespace collapsed.

    Empty when nothing outside the tags could be an arithmetic operator, which spares most tables a parse.
    """
    if not _NOT_PLAIN.search(table) and not _ARITHMETIC.search(_TAG.sub("", table)):
        return []
    soup = BeautifulSoup(table, "html.parser")
    return [" ".join(cell.get_text(separator=" ").split()) for cell in soup.find_all(["td", "th"])]
