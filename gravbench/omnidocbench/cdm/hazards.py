"""Sources the tokeniser refuses to parse, and formulas that must not share a TeX run with others.

Errors stay inside their page, but definitions, assignments, counters, files and page breaks could change what
comes after. A formula whose source contains one of these control words runs alone; hardly any real one does.
"""

from __future__ import annotations

import re

_WORDS = (
    # definitions
    r"[egx]?def|let|futurelet|long|outer|protected|globaldefs|global|csname|aftergroup|afterassignment|newif"
    r"|(?:re)?newcommand|providecommand|(?:re)?newenvironment|DeclareMath\w*|DeclareRobustCommand|newtheorem"
    r"|new(?:count|dimen|skip|muskip|box|toks|read|write|length|savebox|counter|font|fam|language|insert)"
    r"|usepackage|RequirePackage|documentclass|At(?:Begin|End)\w*|AddToHook|NewHook\w*|makeat(?:letter|other)"
    # assignments
    r"|(?:cat|lc|uc|math|del|sf)code|chardef|mathchardef|countdef|dimendef|skipdef|toksdef|font|fontdimen"
    r"|hyphen(?:ation|char)|skewchar|patterns|every\w+|count|dimen|skip|muskip|toks|box|copy|setbox|sbox|savebox"
    r"|advance|multiply|divide|set(?:length|counter)|addto(?:length|counter)|(?:ref)?stepcounter|counterwithin"
    r"|(?:batch|scroll|nonstop|errorstop)mode|output|interactionmode|tracing\w+|show\w*"
    # loops, files, terminal
    r"|loop|repeat|input|@@input|include|openin|openout|closein|closeout|read|readline|write|immediate|message"
    r"|typeout|typein|errmessage|scantokens|jobname|endinput|enddocument|dump"
    # the engine and the page
    r"|pdf\w+|special|shipout|(?:new|clear|cleardouble)page|pagebreak|eject|supereject|twocolumn|onecolumn"
    r"|marginpar|(?:this)?pagestyle|pagenumbering|vsplit|insert|vadjust|mark\w*"
    # counters of the document
    r"|footnote\w*|thanks|caption|item|label|ref|tag|(?:sub)*section|chapter|part|paragraph|bibitem|cite"
)
_ENVIRONMENTS = (
    r"(?:sub)?equations?|align(?:at)?|x?x?flalign|gather|multline|eqnarray|figure|table|document|minipage"
    r"|enumerate|itemize|description|thebibliography|filecontents|verbatim"
)
_HAZARD = re.compile(
    rf"\\(?:{_WORDS})(?![A-Za-z@])(?!\{{(?:array|tabular)\}})"
    rf"|\\begin\s*\{{\s*(?:{_ENVIRONMENTS})\*?\s*\}}|\^\^|\\csname|\\end\s*\{{\s*document"
)


def must_run_alone(body: str) -> bool:
    """True when the coloured source could reach beyond its own page: by a control word, or by an open group.

    Open groups do no harm in a batch, but nothing behind them would be trusted and so the batch run be lost.
    """
    return _HAZARD.search(body) is not None or not _closes_its_groups(body)


def _closes_its_groups(body: str) -> bool:
    """Braces and environments match as TeX sees them: a backslash takes the next character along."""
    depth = 0
    for brace in re.findall(r"[{}]", re.sub(r"\\.", "", body, flags=re.DOTALL)):
        depth += 1 if brace == "{" else -1
        if depth < 0:
            return False
    return depth == 0 and environments_nested(body)


MAX_CHARS = 20_000
_ENVIRONMENT = re.compile(r"\\(begin|end)\{([^{}]+)\}")
_FENCES = ((r"\\left\b", r"\\right\b"), (r"\\\(", r"\\\)"), (r"\\\[", r"\\\]"))
_ESCAPED = "{}[]()"


def parses(source: str, *, tabular: bool = False) -> bool:
    """True when the source may be parsed: braces and environments fit, and delimiters outside tables."""
    source = source.strip()
    if not source:
        return True
    if len(source) > MAX_CHARS or not braces_balanced(source) or not environments_nested(source):
        return False
    return tabular or _delimiters_paired(source)


def braces_balanced(source: str) -> bool:
    """Braces close in order; a backslash before one of `{}[]()` escapes it."""
    depth = 0
    index = 0
    while index < len(source):
        char = source[index]
        if char == "\\" and source[index + 1 : index + 2] and source[index + 1] in _ESCAPED:
            index += 2
            continue
        depth += {"{": 1, "}": -1}.get(char, 0)
        if depth < 0:
            return False
        index += 1
    return depth == 0


def environments_nested(source: str) -> bool:
    """Every `\\end{x}` closes the latest open `\\begin{x}`, and none stays open."""
    open_names: list[str] = []
    for kind, name in _ENVIRONMENT.findall(source):
        if kind == "begin":
            open_names.append(name)
        elif not open_names or open_names.pop() != name:
            return False
    return not open_names


def _delimiters_paired(source: str) -> bool:
    """Equal counts of `\\left`/`\\right`, `\\(`/`\\)`, `\\[`/`\\]`, and an even number of bare dollars."""
    for opening, closing in _FENCES:
        if len(re.findall(opening, source)) != len(re.findall(closing, source)):
            return False
    return len(re.findall(r"(?<!\\)\$", source)) % 2 == 0
