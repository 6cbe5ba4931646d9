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
from gravbench.workshop.training.layout import CLEAN, NO_TARGET, NO_TEACHER, PREFIX


class InkHeads(nn.Module):
    """Classifiers of characters from image features; they exist only while training."""

    def __init__(self, *, width: int, dim: int, vocabulary: int) -> None:
        super().__init__()
        self.patch = nn.Linear(width, vocabulary)
        self.cell = nn.Linear(dim, 2 * vocabulary)


@dataclass(frozen=True, slots=True)
class Weights:
    """Loss weights. `draft` is lambda; `ink` and `pointer` are absolute.

    `agree`: a draft row learns the distribution of the AR row of its slot (detached), not the true token: a
    draft is accepted when it agrees with AR, whatever the page says.
    """

    draft: float = 1.0
    ink: float = 0.5
    pointer: float = 0.3
    decoder: bool = True
    agree: bool = False


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
    if not len(batch.glyph_label) or not weight:
        return features.sum() * 0.0, 0.0
    gathered = features[batch.glyph_patches]  # [G, 4, width]
    mixed = (gathered * batch.glyph_weights[..., None].to(gathered.dtype)).sum(1)
    fine = heads.patch(mixed).float()
    coarse = heads.cell(tokens[batch.glyph_cell]).float()
    coarse = coarse.view(len(coarse), 2, -1)[
        torch.arange(len(coarse), device=coarse.device), batch.glyph_half
    ]
    loss = F.cross_entropy(fine, batch.glyph_label) + F.cross_entropy(coarse, batch.glyph_label)
    return loss, float((fine.argmax(-1) == batch.glyph_label).float().mean())


def pointer_loss(pointer: Pointer, batch: Batch) -> Tensor:
    """Mean cross-entropy of the pointer head's attention over visual tokens against the inked cell."""
    total = pointer.query.sum() * 0.0
    scale = pointer.key.shape[-1] ** -0.5
    samples = zip(batch.rows, batch.images, batch.pointed, batch.cells, strict=True)
    for (first, _), patches, pointed, cells in samples:
        keys = pointer.key[first + batch.image_at :][: patches // 4].float()
        scores = (pointer.query[pointed].float() * scale) @ keys.T
        total = total + F.cross_entropy(scores, cells, reduction="sum")
    return total / max(sum(map(len, batch.cells)), 1)


def draft_loss(logits: Tensor, batch: Batch, *, agree: bool) -> Tensor:
    """Mean cross-entropy of the supervised draft rows; `logits` [M, V] are of all supervised rows, in order.

    With `agree` the target of a draft row is the softmax of the clean row of the same slot, where there is
    one (not past the end of the response), else its label.
    """
    supervised = batch.label != NO_TARGET
    draft = (batch.kind > CLEAN) & supervised
    log_q = logits[draft[supervised]].log_softmax(-1)
    if not agree:
        return F.nll_loss(log_q, batch.label[draft])
    teacher = batch.teacher[draft]
    taught = teacher != NO_TEACHER
    target = F.one_hot(batch.label[draft], logits.shape[-1]).to(logits.dtype)
    place = supervised.cumsum(0) - 1  # row -> its line in `logits`
    target[taught] = logits.detach()[place[teacher[taught]]].softmax(-1)
    return -(target * log_q).sum(-1).mean()


def joint_loss(model: Any, heads: InkHeads, batch: Batch, weights: Weights) -> Losses:
    """All losses of one batch; with `weights.decoder` false only the image features are trained."""
    visual, language = model.model.visual, model.model.language_model
    features, tokens = vision_forward(visual, batch.patches, batch.patch_at, batch.images)
    ink, ink_accuracy = ink_loss(heads, features, tokens, batch, weight=weights.ink)
    if not weights.decoder:
        return Losses(ink, {"ink": float(ink.detach()), "ink_acc": ink_accuracy})
    embeds = language.embed_tokens(batch.ids)
    is_image = (batch.ids == model.config.image_token_id) & (batch.kind == PREFIX)
    embeds = embeds.masked_scatter(is_image[:, None], tokens.to(embeds.dtype))
    hidden, pointer = text_forward(
        language, embeds, batch.positions, batch.spans, pointer_layer=len(language.layers) // 2
    )
    assert pointer is not None
    supervised = batch.label != NO_TARGET
    logits = model.lm_head(hidden[supervised]).float()
    label = batch.label[supervised]
    causal = (batch.kind <= CLEAN)[supervised]
    ar = F.cross_entropy(logits[causal], label[causal])
    draft = draft_loss(logits, batch, agree=weights.agree)
    point = pointer_loss(pointer, batch)
    total = (ar + weights.draft * draft) / (1 + weights.draft) + weights.ink * ink + weights.pointer * point
    hit = (logits.detach().argmax(-1) == label).float()
    parts = {"ar": ar, "draft": draft, "ink": ink, "pointer": point}
    return Losses(
        total,
        {
            **{name: float(part.detach()) for name, part in parts.items()},
            "ar_acc": float(hit[causal].mean()),
            "draft_acc": float(hit[~causal].mean()),
            "ink_acc": ink_accuracy,
            "tokens": float(len(batch.ids)),
        },
    )
