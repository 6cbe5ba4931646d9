"""Scorers: what turns an answer into numbers, and the table that says what each number is.

`contract` holds the metric table's row and the protocol, `crops` the scorer of single crops, `registry` finds
a scorer by name, `scoring` applies the scorers of a suite to the records of a run.
"""
