"""Formulas of OmniDocBench v1.6: normal form, split into lines, and the formula stage."""
