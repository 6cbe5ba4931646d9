"""Which formulas must not share a TeX run with others.

Errors stay inside their page, but definitions, assignments, counters, files and page breaks could change what
comes after. A formula whose source contains one of these control words runs alone; hardly any real one does.
"""

from __future__ import annotations

import re

from gravbench.omnidocbench.cdm.guard import environments_nested

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
