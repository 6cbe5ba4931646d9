"""CDM, the formula metric of OmniDocBench: do the same signs stand in the same places once rendered?

Both formulas are typeset with every token in a colour of its own; the tokens' boxes are matched. The values
are those of the official scorer (OmniDocBench v1.6, TeX Live 2022, Ghostscript 10), but many formulas share
one TeX run and one Ghostscript run, and nothing is rendered twice. Call `check_tools` before trusting a
score.
"""
