"""The second normalisation: one token for each thing that is drawn.

Works on the blank-separated tokens of the first normal form, or on the raw source when that failed.
Function names and dots are spelled out, macros that must not be torn apart are glued to their arguments,
colours go, and missing braces are filled in. Rules and order are those of OmniDocBench v1.6.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from gravbench.omnidocbench.cdm.braces import closing_index
from gravbench.omnidocbench.cdm.vocabulary import ACCENTS, BRACKETED, FRACTIONS, SPELLED, STACKS, WRAPPERS

_DIMENSION = r"{[ .0-9a-z]+}"
_COLOUR = re.compile(
    r"\\(?:colorbox|color|textcolor|cellcolor)[ \[\]RGBrgb]+{ [A-Za-z 0-9,!]+ } ",
    re.DOTALL,
)
_TOKEN = re.compile(r"(?<=\s)\S+(?=\s)")


def normalise(source: str) -> str:
    """Normalised text, one blank at either end. Raises `ValueError` or `IndexError` on brackets left open."""
    table = "tabular" in source
    text = source.strip().replace(r"\pmatrix", r"\mypmatrix").replace(r"\matrix", r"\mymatrix")
    for name in (r"\raggedright", r"\arraybackslash", r"\lowercase", r"\uppercase"):
        text = text.replace(name, "")
    text = _glue(text, r"\\[hv]space { [.0-9a-z ]+ }", (lambda _: "") if table else _joined)
    if table:
        text = _glue_table_heads(text)
    text = _glue(text, r"\\begin{array} { [lrc ]+ }", _array_head)
    text = _TOKEN.sub(lambda token: SPELLED.get(token[0], token[0]), f" {text} ")
    text = _glue_macros(text, table=table)
    text = _drop_all(text, _COLOUR)
    return " ".join(_fill_braces(text.split(" ")))


def _glue(text: str, pattern: str, rewrite: Callable[[str], str]) -> str:
    """Find the pattern once, then replace every occurrence of each found string."""
    for found in re.findall(pattern, text, re.DOTALL):
        text = text.replace(found, rewrite(found))
    return text


def _drop_all(text: str, pattern: re.Pattern[str]) -> str:
    for found in pattern.findall(text):
        text = text.replace(found, "")
    return text


def _joined(found: str) -> str:
    return found.replace(" ", "")


def _joined_apart(found: str) -> str:
    return _joined(found) + " "


def _array_head(found: str) -> str:
    head = r"\begin{array} "
    return head + _joined(found.removeprefix(head))


def _glue_macros(text: str, *, table: bool) -> str:
    text = _glue(text, r"\\string [^ ]+ ", _joined_apart)
    text = _glue(text, r"\\[Bb]ig[g]?[glrm]? [(){}|\[\]] ", _joined_apart)
    text = _glue(text, r"\\[Bb]ig[g]?[glrm]? \\.*? ", _joined_apart)
    text = text.replace(r"\operatorname *", r"\operatorname")
    text = text.replace(r"\lefteqn", "").replace(r"\footnote ", "^ ")
    text = _glue(text, r"\\' [^{] ", _joined_apart)
    if table:
        text = _glue(text, r"\[ [\-.0-9 ]+[exptcm ]+ \]", _joined)
    text = _glue(text, r"\\parbox {[^{]+}", _joined)
    text = _glue(text, r"\\raisebox {[^{]+} [\[\]0-9 exptcm]+{", lambda found: _joined(found)[:-1] + " {")
    text = _glue(text, r"{ \\char[0-9\' ]+}", lambda found: "{ " + _joined(found)[1:-1] + " }")
    text = _glue(text, rf"\\rule {_DIMENSION} {_DIMENSION}", _joined)
    return _glue(text, rf"\\specialrule {_DIMENSION} {_DIMENSION} {_DIMENSION}", _joined)


def _glue_table_heads(text: str) -> str:
    """`\\begin{tabular}` with its column argument, and every `\\cmidrule` or `\\cline`, as one token each."""
    for kind in ("tabular", "array"):
        for end in ("begin", "end"):
            text = text.replace(f"\\{end} {{{kind}}}", f"\\{end}{{{kind}}}")
    tokens = text.split(" ")
    head = r"\begin{tabular}"
    if head in tokens:
        at = tokens.index(head)
        _join_span(tokens, at, closing_index(tokens, at + 1))
    index = 0
    while index < len(tokens):
        if tokens[index] in {r"\cmidrule", r"\cline"}:
            argument = index + 1
            if tokens[argument] == "(":
                argument = closing_index(tokens, argument, "(", ")") + 1
            _join_span(tokens, index, closing_index(tokens, argument))
        index += 1
    return " ".join(tokens)


def _join_span(tokens: list[str], start: int, end: int) -> None:
    tokens[:] = [*tokens[:start], "".join(tokens[start : end + 1]), *tokens[end + 1 :]]


def _fill_braces(tokens: list[str]) -> list[str]:
    """Give every macro that draws or wraps an argument its braces: `\\hat x` is `\\hat { x }`."""
    index = 0
    while index < len(tokens):
        token = tokens[index]
        if token in ACCENTS or token in WRAPPERS:
            tokens = _brace_chain(tokens, index)
        elif token in BRACKETED:
            degree = tokens[index + 1] == "["
            last = closing_index(tokens, index + 1, "[", "]") if degree else index
            tokens = _braced_at(tokens, last + 1)
        elif token in FRACTIONS or token in STACKS:
            tokens = _braced_at(tokens, index + 1)
            tokens = _braced_at(tokens, closing_index(tokens, index + 1) + 1)
        index += 1
    return tokens


def _braced_at(tokens: list[str], index: int) -> list[str]:
    if tokens[index] == "{":
        return tokens
    return [*tokens[:index], "{", tokens[index], "}", *tokens[index + 1 :]]


def _brace_chain(tokens: list[str], start: int) -> list[str]:
    """`\\hat \\mathbf x` is `\\hat { \\mathbf { x } }`."""
    body = start
    while body < len(tokens) and (tokens[body] in ACCENTS or tokens[body] in WRAPPERS):
        body += 1
    chain = [piece for head in tokens[start:body] for piece in (head, "{")]
    if tokens[body] == "{":
        end = closing_index(tokens, body)
        inner = tokens[body + 1 : end]
    else:
        end = body
        inner = [tokens[body]]
    return [*tokens[:start], *chain, *inner, *["}"] * (body - start), *tokens[end + 1 :]]
