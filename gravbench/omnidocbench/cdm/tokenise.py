"""From a formula string to the coloured source that TeX is given, and the tokens that should appear.

`tokenise` follows OmniDocBench v1.6 step by step: choose the template, prepare Chinese text, print the first
normal form (or keep the raw source when that fails), normalise again, colour.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from gravbench.omnidocbench.cdm.atoms import print_source
from gravbench.omnidocbench.cdm.colour import (
    ACCENTS,
    BRACKETED,
    FRACTIONS,
    SPELLED,
    STACKS,
    WRAPPERS,
    Painted,
    closing_index,
    paint,
)
from gravbench.omnidocbench.cdm.tree import NAMED_OPERATORS, print_tree
from gravbench.omnidocbench.text import is_broken_latex

Template = Literal["plain", "cjk", "tabular"]
"""Which document a formula is set in."""

MAX_CHARS = 20_000
"""Longer formulas are not parsed."""
_COMMON = "\u4e00-\u9fff"
_HAN = _COMMON + "\u3400-\u4dbf"
_PERCENT = "<PERCENTAGETOKEN>"
_PERCENT_SPELLED = " ".join(_PERCENT)
_ALIGNED = re.compile(r"\\begin{(split|align|alignedat|alignat|eqnarray)\*?}(.+?)\\end{\1\*?}", re.DOTALL)
_SMALLMATRIX = re.compile(r"\\begin{(smallmatrix)\*?}(.+?)\\end{\1\*?}", re.DOTALL)
_GROUP_WITH_HAN = r"\s*\{([^{}]*[" + _HAN + r"][^{}]*)\}"


@dataclass(frozen=True)
class Tokenised:
    """One formula, tokenised. `painted` is `None` when brackets defeat the colouring: no boxes then."""

    ok: bool
    """There is a first normal form (of a refused source the source itself); False when parsing failed."""
    tokenized: str
    normalized: str | None
    painted: Painted | None
    template: Template
    problem: str | None = None
    raw: bool = False
    """The source itself is used, as it was refused or could not be parsed."""

    @property
    def tokens(self) -> tuple[str, ...]:
        return self.painted.tokens if self.painted else ()


def tokenise(formula: str) -> Tokenised:
    """Tokens and coloured source of a formula without its outer wrappers. Never raises on bad LaTeX."""
    template, source = _prepare(formula)
    first = _first_form(source)
    ok = first is None or bool(first)
    text = _rewrite_han(first or source)
    text = text.replace(_PERCENT_SPELLED, r"\%")
    try:
        normalized = normalise(text)
        painted = paint(normalized)
    except (ValueError, IndexError, RecursionError) as error:
        return Tokenised(ok, text, None, None, template, f"{type(error).__name__}: {error}", not first)
    return Tokenised(ok, text, normalized, painted, template, raw=not first)


def _prepare(formula: str) -> tuple[Template, str]:
    """Template by a look at the raw string, and the string with Chinese text wrapped and `\\%` protected."""
    template: Template = "plain"
    if "tabular" in formula:
        template = "tabular"
    elif _has_common_han(formula):
        template = "cjk"
        formula = formula.replace("，", ", ").replace("：", ": ").replace("；", "; ")
        formula = _wrap_han(formula)
    return template, formula.replace("\n", " ").replace(r"\%", _PERCENT)


def _has_common_han(text: str) -> bool:
    return re.search(f"[{_COMMON}]", text) is not None


def _wrap_han(text: str) -> str:
    """Put every run of Chinese characters that is not exactly the content of a `\\text{..}` into one."""
    text = re.sub(r"\\text\s*\{", r"\\text{", text)

    def wrapped(run: re.Match[str]) -> str:
        alone = text[: run.start()].endswith(r"\text{") and re.match(r"\s*}", text[run.end() :])
        return run[0] if alone else rf"\text{{{run[0]}}}"

    return re.sub(f"[{_HAN}]+", wrapped, text)


def _rewrite_han(text: str) -> str:
    """Chinese in `\\mathrm` moves to `\\text`, and the groups are spaced out: each character is a token."""
    if not _has_common_han(text):
        return text
    text = re.sub(r"\\mathrm" + _GROUP_WITH_HAN, r"\\text{\1}", text)
    return re.sub(r"\\text" + _GROUP_WITH_HAN, lambda group: rf"\text {{ {group[1].strip()} }}", text)


class _RefusedSourceError(Exception):
    """The guards do not let this source be parsed."""


def _first_form(source: str) -> str | None:
    """First normal form as one string; empty when there is none, `None` for a source that is not parsed."""
    if not source:
        return ""
    try:
        tokens = _table_tokens(source) if "tabular" in source else _formula_tokens(source)
    except _RefusedSourceError:
        return None
    except Exception:  # the parser may fail in any way on hostile input; the raw source is used then
        return ""
    return " ".join(" ".join(tokens).split())


# --- formulas --------------------------------------------------------------------------------------------


def _formula_tokens(source: str) -> list[str]:
    source = _ALIGNED.sub(r"\\begin{aligned}\2\\end{aligned}", source)
    source = _SMALLMATRIX.sub(r"\\begin{matrix}\2\\end{matrix}", source)
    source = _clean_formula(source)
    if is_broken_latex(source, max_chars=MAX_CHARS):
        raise _RefusedSourceError
    source = source.replace("$", " ")
    ends_in_backslash = source.endswith("\\")
    printed = " ".join(print_tree(_roman_groups(source))).strip()
    printed = printed.replace("SSSSSS", "$").replace(" S S S S S S", "$")
    printed = re.sub(r"\\label \{ .*? \}", "", printed).strip()
    if not printed and source.strip() == "\\":
        printed = "\\"
    tokens = printed.split()
    if ends_in_backslash and tokens and tokens[-1] != "\\":
        tokens.append("\\")
    tokens = _glue_fences(_shorten_operators(" ".join(tokens)).split())
    return " ".join(tokens).replace(r"\\ \end{array}", r"\end{array}").split()


def _clean_formula(source: str) -> str:
    """Comments, labels and alignment leftovers go; a row break outside any environment is a thin space."""
    source = source.removeprefix("%").split("%", 1)[0].replace(r"\~", " ")
    source = re.sub(rf"(\\[A-Za-z]+)(?=[{_COMMON}])", r"\1 ", source)
    source = source.replace(r"\>", " ")
    return _clean_rows(re.sub(r"\\label\{.*?\}", "", source))


def _clean_rows(source: str) -> str:
    multiline = any(word in source for word in ("matrix", "cases", "array", "begin"))
    return source if multiline else source.replace(r"\\", r"\,")


def _roman_groups(source: str) -> str:
    """`{\\rm x}` is `\\mathrm{ x}`."""
    for old in (r"{\rm", r"{ \rm", r"\rm{"):
        source = source.replace(old, r"\mathrm{")
    return source


def _shorten_operators(text: str) -> str:
    """`\\operatorname { l o g }` is `\\log`; the starred form stays."""

    def shortened(call: re.Match[str]) -> str:
        name = re.sub(r"\s+", "", call[1])
        return "\\" + name if name in NAMED_OPERATORS else call[0]

    return re.sub(r"\\operatorname\s*\{([^{}]*?)\}", shortened, text)


def _glue_fences(tokens: list[str]) -> list[str]:
    """`\\left (` is `\\left(`."""
    glued: list[str] = []
    index = 0
    while index < len(tokens):
        span = 2 if tokens[index] in {r"\left", r"\right"} else 1
        glued.append("".join(tokens[index : index + span]))
        index += span
    return glued


# --- tables ----------------------------------------------------------------------------------------------


def _table_tokens(source: str) -> list[str]:
    source = source.replace(r"\\%", r"\\ %").replace(r"\%", "<PERCENTAGE_TOKEN>")
    source = source.split("%")[0].replace("<PERCENTAGE_TOKEN>", r"\%")
    if r"\end{tabular}" not in source:
        source += r"\end{tabular}"
    source = (
        re.sub(r"hskip(.*?)(cm|in|pt|mm|em)", r"hspace{\1\2}", source).replace("\r", " ").replace("\n", " ")
    )
    source = re.sub(r"\\label\{.*?\}", "", source.removeprefix("%").replace(r"\~", " ").replace(r"\>", " "))
    source = _clean_rows(source)
    if is_broken_latex(source, table=True, max_chars=MAX_CHARS):
        raise _RefusedSourceError
    return print_source(source)


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
