"""The straight path: suite -> plan -> interleaved pairs on disk -> scores -> summary.

`options` says what was asked, `folder` which run folder serves it, `session` generates what is missing,
`path` ties them together.
"""
