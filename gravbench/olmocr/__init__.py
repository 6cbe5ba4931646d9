"""olmOCR-Bench: the official verdicts and numbers, without a model."""
