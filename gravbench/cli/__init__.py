"""The command line. Each verb parses, calls one function, prints, and returns an exit code.

Heavy imports happen inside the verbs: `gravbench --help` loads neither torch nor pandas.
"""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Console entry point. Garbage is looked for rarely: a tenth of the start-up went into looking."""
    gc.set_threshold(100_000, 20, 20)
    from gravbench.cli.app import run_command_line
    from gravbench.cli.output import flush_or_forget

    code = run_command_line(sys.argv[1:])
    flush_or_forget()
    sys.exit(code)
