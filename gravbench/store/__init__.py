"""What reaches disk: the run directory, its records, its lock. The only package that reads or writes them.

`schema` holds the records, `files` the durable primitives, `lock` the one-writer rule and `rundir` the
folder that ties them together.
"""
