"""What strategies that draft have in common: what they ask of a checkpoint, and how many drafts stand."""

from __future__ import annotations

from collections.abc import Sequence

from gravbench.decoding.masks import window
from gravbench.decoding.protocols import HeadInfo, Lane, ModelInfo, StateT
from gravbench.decoding.window import Needs, Step, Window
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


def within_block(name: str, option: str, value: int | None, block: int) -> None:
    """`UsageError` for an option that counts slots of a block and is larger than it."""
    if value is not None and value > block:
        raise UsageError(
            f"{name}: {option} is {value}, the block has {block} slots",
            hint=f"for example {name}:block={value},{option}={value}, or a smaller {option}",
        )


def head_of(name: str, info: ModelInfo) -> HeadInfo:
    """The head `name` of a checkpoint; `UsageError` where there is none."""
    for head in info.heads:
        if head.name == name:
            return head
    others = ", ".join(f"'{head.name}'" for head in info.heads)
    raise UsageError(
        f"{name}: this checkpoint has no head '{name}'{f', only {others}' if others else ''}",
        hint=f"Put {name}.safetensors beside its weights, or use another strategy.",
    )


def fits(arm: str, rows: int, info: ModelInfo) -> int:
    """`rows` of the widest window of `arm`; `UsageError` when they exceed the model's positions."""
    if rows > info.max_positions:
        raise UsageError(
            f"{arm}: a window of {rows} rows exceeds the cache of {info.max_positions} positions",
            hint=f"use a block of at most {info.max_positions - 1}",
        )
    return rows


def block_needs(name: str, block: int | None, info: ModelInfo) -> Needs:
    """What `name` needs whose widest window is x0 and a block, drafted or checked."""
    size, _ = draft_setting(name, block, info)
    return Needs(rows_max=fits(f"{name}:block={size}", size + 1, info))


def tree_needs(name: str, block: int | None, nodes: int, info: ModelInfo) -> Needs:
    """What `name` needs that drafts a block and checks a tree of a root and `nodes` others."""
    size, _ = draft_setting(name, block, info)
    return Needs(rows_max=fits(f"{name}:block={size},nodes={nodes}", max(size, nodes) + 1, info))


def block_draft(lane: Lane[StateT], block: int, mask_id: int) -> Step:
    """The forward of `[x0 | MASK x block]`: row 0 says the exact next token, row j drafts after it."""
    return Step("draft", Window((lane.output.boundary, *(mask_id,) * block), window(1, block + 1)))


def ended_by_seed(lane: Lane[StateT], a0: int) -> bool:
    """Close the round of a block draft whose exact token ends the answer; whether it does."""
    if not lane.output.ends_with(a0):
        return False
    lane.keep(1)
    lane.commit((a0,))
    lane.trace.round(seeds=1, extra=2)
    return True


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
