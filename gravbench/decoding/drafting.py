"""What strategies that draft have in common: what they ask of a checkpoint, and how many drafts stand."""

from __future__ import annotations

from collections.abc import Sequence

from gravbench.decoding.protocols import ModelInfo
from gravbench.errors import UsageError


def draft_setting(name: str, block: int | None, info: ModelInfo) -> tuple[int, int]:
    """Block size (`None`: the trained one) and mask id; `UsageError` for a checkpoint that cannot draft."""
    size = block if block is not None else info.block_size
    if info.mask_token_id is None or size is None:
        raise UsageError(
            f"{name}: this checkpoint has no block_diffusion.json, so no mask token to draft with",
            hint="use --strategy ar, or a checkpoint trained for block diffusion",
        )
    return size, info.mask_token_id


def fits(arm: str, rows: int, info: ModelInfo) -> int:
    """`rows` of the widest window of `arm`; `UsageError` when they exceed the model's positions."""
    if rows > info.max_positions:
        raise UsageError(
            f"{arm}: a window of {rows} rows exceeds the cache of {info.max_positions} positions",
            hint=f"use a block of at most {info.max_positions - 1}",
        )
    return rows


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
