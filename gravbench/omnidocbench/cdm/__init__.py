"""CDM, the formula metric of OmniDocBench: do the same signs stand in the same places once rendered?

Both formulas are typeset with every token in a colour of its own; the tokens' boxes are matched. The values
are those of the official scorer (OmniDocBench v1.6, TeX Live 2022, Ghostscript 10), but many formulas share
one TeX run and one Ghostscript run, and nothing is rendered twice. Call `check_tools` before trusting a
score.
"""

from gravbench.omnidocbench.cdm.score import (
    CdmPair,
    CdmResult,
    CdmToolStatus,
    check_tools,
    score_pairs,
    signature,
)
from gravbench.omnidocbench.cdm.tools import DEBIAN_PACKAGES, Limits, find_tools, install_command
from gravbench.omnidocbench.result_cache import default_cache_dir

__all__ = [
    "DEBIAN_PACKAGES",
    "CdmPair",
    "CdmResult",
    "CdmToolStatus",
    "Limits",
    "check_tools",
    "default_cache_dir",
    "find_tools",
    "install_command",
    "score_pairs",
    "signature",
]
