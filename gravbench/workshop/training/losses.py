"""The joint loss: AR and block diffusion of the same weights, and what aligns a model trained from nothing.

(L_AR + lambda L_diff) / (1 + lambda), each a mean over its own supervised tokens (GravityOCR). Two auxiliary
losses, both dropped at export: *ink* (a character is classified from the image features at the place where
it was drawn, before and after merging) and *pointer* (one attention head looks at that place when the
character is predicted, in the AR stream and in the drafts).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gravbench.workshop.training.batches import Batch
from gravbench.workshop.training.glm import Pointer, text_forward, vision_forward
from gravbench.workshop.training.layout import CLEAN, NO_TARGET, PAD, PREFIX, visibility


class InkHeads(nn.Module):
    """Classifiers of characters from image features; they exist only while training."""

    def __init__(self, *, width: int, dim: int, vocabulary: int) -> None:
        super().__init__()
        self.patch = nn.Linear(width, vocabulary)
        self.cell = nn.Linear(dim, 2 * vocabulary)


@dataclass(frozen=True, slots=True)
class Weights:
    """Loss weights. `draft` is lambda; `ink` and `pointer` are absolute."""

    draft: float = 1.0
    ink: float = 0.5
    pointer: float = 0.3
    decoder: bool = True


@dataclass(frozen=True, slots=True)
class Losses:
    """The total (with graph) and its detached parts; accuracies are shares of supervised tokens."""

    total: Tensor
    parts: dict[str, float]


def ink_loss(
    heads: InkHeads, features: Tensor, tokens: Tensor, batch: Batch, *, weight: float
) -> tuple[Tensor, float]:
    """Cross-entropy of every inked token from patch features and from merged tokens, and patch accuracy.

    Zero, and not computed, when its `weight` is zero.
    """
    if not len(batch.glyph_row) or not weight:
        return features.sum() * 0.0, 0.0
    row = batch.glyph_row[:, None]
    gathered = features[row, batch.glyph_patches]  # [M, 4, width]
    mixed = (gathered * batch.glyph_weights[..., None].to(gathered.dtype)).sum(1)
    fine = heads.patch(mixed).float()
    coarse = heads.cell(tokens[batch.glyph_row, batch.glyph_cell]).float()
    coarse = coarse.view(len(coarse), 2, -1)[
        torch.arange(len(coarse), device=coarse.device), batch.glyph_half
    ]
    loss = F.cross_entropy(fine, batch.glyph_label) + F.cross_entropy(coarse, batch.glyph_label)
    return loss, float((fine.argmax(-1) == batch.glyph_label).float().mean())


def pointer_loss(pointer: Pointer, batch: Batch, cells: Tensor) -> Tensor:
    """Cross-entropy of the pointer head's attention over visual tokens against the inked cell.

    `cells` [B] counts the visual tokens of each image.
    """
    rows, columns = (batch.cell != NO_TARGET).nonzero(as_tuple=True)
    if not len(rows):
        return pointer.query.sum() * 0.0
    most = int(cells.max())
    keys = pointer.key[:, batch.image_at : batch.image_at + most].float()
    scores = torch.einsum("btd,bnd->btn", pointer.query.float(), keys) * pointer.key.shape[-1] ** -0.5
    outside = torch.arange(most, device=cells.device)[None] >= cells[:, None]
    scores = scores.masked_fill(outside[:, None], float("-inf"))
    return F.cross_entropy(scores[rows, columns], batch.cell[rows, columns])


def joint_loss(model: Any, heads: InkHeads, batch: Batch, weights: Weights) -> Losses:
    """All losses of one batch; with `weights.decoder` false only the image features are trained."""
    visual, language = model.model.visual, model.model.language_model
    features, tokens = vision_forward(visual, batch.patches, batch.patch_at, batch.patch_valid)
    ink, ink_accuracy = ink_loss(heads, features, tokens, batch, weight=weights.ink)
    if not weights.decoder:
        return Losses(ink, {"ink": float(ink.detach()), "ink_acc": ink_accuracy})
    cells = batch.patch_valid.sum(1) // 4
    embeds = language.embed_tokens(batch.ids)
    seen = torch.arange(tokens.shape[1], device=tokens.device)[None] < cells[:, None]
    is_image = (batch.ids == model.config.image_token_id) & (batch.kind == PREFIX)
    embeds = embeds.masked_scatter(is_image[..., None], tokens[seen].to(embeds.dtype))
    mask = visibility(batch.kind, batch.slot, batch.block)
    hidden, pointer = text_forward(
        language, embeds, batch.positions, mask, pointer_layer=len(language.layers) // 2
    )
    assert pointer is not None
    supervised = batch.label != NO_TARGET
    logits = model.lm_head(hidden[supervised]).float()
    label = batch.label[supervised]
    per_token = F.cross_entropy(logits, label, reduction="none")
    causal = (batch.kind <= CLEAN)[supervised]
    ar, draft = per_token[causal].mean(), per_token[~causal].mean()
    point = pointer_loss(pointer, batch, cells)
    total = (ar + weights.draft * draft) / (1 + weights.draft) + weights.ink * ink + weights.pointer * point
    hit = (logits.argmax(-1) == label).float()
    parts = {"ar": ar, "draft": draft, "ink": ink, "pointer": point}
    return Losses(
        total,
        {
            **{name: float(part.detach()) for name, part in parts.items()},
            "ar_acc": float(hit[causal].mean()),
            "draft_acc": float(hit[~causal].mean()),
            "ink_acc": ink_accuracy,
            "tokens": float((batch.kind != PAD).sum()),
        },
    )
