"""The straight path: suite -> plan -> interleaved pairs on disk -> scores -> summary.

`strategies` makes arms of what was asked, `samples` and `plan` say which answers are wanted in which order,
`folder` which run folder holds them, `readers` and `session` make those that are missing, and `run` ties them
together.
"""
