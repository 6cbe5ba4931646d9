"""Greedy verification: drafts + the verifier's own tokens -> how many drafts stand."""

from __future__ import annotations

from collections.abc import Sequence


def matched_prefix(drafts: Sequence[int], verified: Sequence[int]) -> int:
    """Length A of the longest prefix with `drafts[j] == verified[j]`, 0 <= A <= len(drafts).

    `verified[j]` is the verifier's token for the slot of `drafts[j]`; `verified` may be longer (its
    next entry is the correction or the bonus token), never shorter.
    """
    if len(verified) < len(drafts):
        raise ValueError(f"{len(drafts)} drafts need as many verified tokens, got {len(verified)}")
    for accepted, (draft, token) in enumerate(zip(drafts, verified, strict=False)):
        if draft != token:
            return accepted
    return len(drafts)
