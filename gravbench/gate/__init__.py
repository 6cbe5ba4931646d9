"""May this change merge? A run is held against reference outputs by rules read from TOML.

`policy` reads the rules, `reference` what we vouch for, `rules` decides each one, `candidate` and `exact`
apply them in the gate's modes, `bless` writes references, `junit` and `github` tell other tools.
"""
