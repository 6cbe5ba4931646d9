"""Reports: one self-contained HTML file from finished runs, and published comparisons rendered from JSON."""
