"""LaTeX and pipe tables as HTML, and which predicted table answers which (OmniDocBench v1.6)."""
