"""Ground-truth lines against predicted lines (OmniDocBench v1.6, `quick_match`)."""
