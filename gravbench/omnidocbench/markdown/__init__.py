"""Predicted Markdown -> the items that the scorer matches (OmniDocBench v1.6)."""
