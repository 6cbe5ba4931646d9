"""gravbench: evaluation and benchmarking harness for self-speculative document-OCR models."""

__version__ = "0.1.0"
