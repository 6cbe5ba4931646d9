"""What every strategy that drafts by mask rows asks of a checkpoint."""

from __future__ import annotations

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
