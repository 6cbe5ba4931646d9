"""One training sequence per sample: `[ S | x_0 | x_t view A | x_t view B ]`.

S is image + prompt, kept once. x_0 is the clean response, token-causal, the AR path. Each x_t is a noised
copy: block k sees S, its own block in both directions, and x_0 before the block; the views never see each
other and x_0 never sees x_t (GravityOCR's joint recipe). Row j of every stream predicts token j + 1 (token
shift); the first response token is predicted by the last row of S. Blocks are response-relative with a
random phase; tokens after the response are EOS; only blocks that start at or before the first EOS stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Ints = npt.NDArray[np.int64]
PREFIX, CLEAN, VIEW_A, VIEW_B, PAD = 0, 1, 2, 3, 4
NO_TARGET = -100
NO_TEACHER = -1


@dataclass(frozen=True, slots=True)
class Row:
    """One sample laid out, columns of equal length T.

    ids: input token; kind: stream; slot: index inside the stream (response token index for x_0 and x_t);
    block: first slot of the row's block (x_t only, else 0); label: token to predict or NO_TARGET;
    point: response token index whose ink the pointer should look at, or NO_TARGET.
    """

    ids: Ints
    kind: Ints
    slot: Ints
    block: Ints
    label: Ints
    point: Ints


def block_starts(length: int, *, size: int, phase: int) -> Ints:
    """First slot of the block of every slot below `length`; the first block has `phase` slots (1..size)."""
    slots = np.arange(length)
    return np.maximum(((slots - phase) // size) * size + phase, 0)


def noise(starts: Ints, *, rng: np.random.Generator, eps: float = 1e-3) -> npt.NDArray[np.bool_]:
    """Which slots view A masks: per block p = (1-eps) u + eps, u ~ U[0,1], then Bernoulli(p) per slot."""
    _, inverse = np.unique(starts, return_inverse=True)
    p = (1 - eps) * rng.random(inverse.max() + 1) + eps
    masked: npt.NDArray[np.bool_] = rng.random(len(starts)) < p[inverse]
    return masked


def noised_view(
    response: Sequence[int],
    *,
    starts: Ints,
    masked: npt.NDArray[np.bool_],
    kind: int,
    mask_id: int,
    eos_id: int,
) -> Row:
    """The x_t stream of one view. A row is supervised when the token it predicts is masked in this view."""
    n = len(starts)
    padded = np.concatenate([np.asarray(response, dtype=np.int64), np.full(n + 1, eos_id, dtype=np.int64)])
    target_masked = np.append(masked[1:], masked[-1])
    slots = np.arange(n)
    return Row(
        ids=np.where(masked, mask_id, padded[:n]),
        kind=np.full(n, kind),
        slot=slots,
        block=starts,
        label=np.where(target_masked, padded[1 : n + 1], NO_TARGET),
        point=np.where(target_masked, slots + 1, NO_TARGET),
    )


def lay_out(
    prefix: Sequence[int],
    response: Sequence[int],
    *,
    block: int,
    mask_id: int,
    eos_id: int,
    full_mask_share: float,
    rng: np.random.Generator,
) -> Row:
    """Lay one sample out. `response` is without EOS.

    With probability `full_mask_share` both views are masked entirely, each with a block phase of its own
    (what a one-step draft meets); otherwise the views are complementary, every token a target exactly once.
    """
    s, m = len(prefix), len(response)
    first = Row(
        ids=np.asarray(prefix, dtype=np.int64),
        kind=np.full(s, PREFIX),
        slot=np.arange(s),
        block=np.zeros(s, dtype=np.int64),
        label=np.append(np.full(s - 1, NO_TARGET), (*response, eos_id)[0]),
        point=np.append(np.full(s - 1, NO_TARGET), 0),
    )
    clean = Row(
        ids=np.asarray(response, dtype=np.int64),
        kind=np.full(m, CLEAN),
        slot=np.arange(m),
        block=np.zeros(m, dtype=np.int64),
        label=np.asarray([*response[1:], eos_id][:m], dtype=np.int64),
        point=np.arange(1, m + 1),
    )
    full = rng.random() < full_mask_share
    views = []
    masked: npt.NDArray[np.bool_] | None = None
    phase = int(rng.integers(1, block + 1))
    for kind in (VIEW_A, VIEW_B):
        if full and kind == VIEW_B:
            phase = (phase + int(rng.integers(1, block)) - 1) % block + 1 if block > 1 else 1
        starts = block_starts(m + block, size=block, phase=phase)
        starts = starts[starts <= m]
        if full:
            masked = np.ones(len(starts), dtype=bool)
        else:
            masked = noise(starts, rng=rng) if masked is None else ~masked
        views.append(
            noised_view(response, starts=starts, masked=masked, kind=kind, mask_id=mask_id, eos_id=eos_id)
        )
    rows = (first, clean, *views)
    return Row(*(np.concatenate([getattr(r, f) for r in rows]) for f in Row.__slots__))


def visibility(kind: Tensor, slot: Tensor, block: Tensor) -> Tensor:
    """Who sees whom, [B, 1, T, T] bool, from row attributes [B, T]. Padding sees only itself."""
    q_kind, k_kind = kind[:, :, None], kind[:, None, :]
    q_slot, k_slot = slot[:, :, None], slot[:, None, :]
    q_block, k_block = block[:, :, None], block[:, None, :]
    causal = (q_kind == k_kind) & (k_slot <= q_slot) & (q_kind <= CLEAN)
    response_sees_prefix = (k_kind == PREFIX) & (q_kind != PREFIX) & (q_kind != PAD)
    noisy = (q_kind == VIEW_A) | (q_kind == VIEW_B)
    noisy_sees_clean = noisy & (k_kind == CLEAN) & (k_slot < q_block)
    own_block = noisy & (q_kind == k_kind) & (q_block == k_block)
    itself = torch.eye(kind.shape[1], dtype=torch.bool, device=kind.device)
    return (causal | response_sees_prefix | noisy_sees_clean | own_block | itself)[:, None]


def prefix_positions(prefix: Sequence[int], *, image_id: int, grid: tuple[int, int]) -> Ints:
    """M-RoPE rows [3, S] of a prefix with one image of merged `grid` = (rows, columns).

    Equal to the stock `get_rope_index`: text advances all axes, the image holds (t, t+row, t+column) and
    advances by the larger side.
    """
    ids = np.asarray(prefix)
    at = int(np.argmax(ids == image_id)) if (ids == image_id).any() else len(ids)
    rows, columns = grid
    count = rows * columns if at < len(ids) else 0
    head = np.tile(np.arange(at), (3, 1))
    r, c = np.divmod(np.arange(count), max(columns, 1))
    image = np.stack([np.full(count, at), at + r, at + c])
    after = at + (max(rows, columns) if count else 0)
    tail = np.tile(after + np.arange(len(ids) - at - count), (3, 1))
    return np.concatenate([head, image, tail], axis=1).astype(np.int64)
