"""The OmniDocBench v1.6 end-to-end evaluation: page by page matching, then official aggregation."""
