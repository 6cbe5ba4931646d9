"""Well-formedness guards that run before LaTeX reaches a converter (OmniDocBench v1.6, section 5.1)."""

from __future__ import annotations

import re

_ESCAPED = re.compile(r"\\[{}\[\]()]")
_ENVIRONMENT = re.compile(r"\\(begin|end)\s*\{([^{}]*)\}")


def braces_balanced(source: str) -> bool:
    r"""Whether every unescaped `{` has its `}`; `\{ \} \[ \] \( \)` do not count."""
    depth = 0
    for character in _ESCAPED.sub("", source):
        if character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
            if depth < 0:
                return False
    return depth == 0


def environments_balanced(source: str) -> bool:
    r"""Whether every `\begin{x}` is closed by its own `\end{x}`, properly nested."""
    stack: list[str] = []
    for kind, name in _ENVIRONMENT.findall(source):
        if kind == "begin":
            stack.append(name)
        elif not stack or stack.pop() != name:
            return False
    return not stack
