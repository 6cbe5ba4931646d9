"""What to train on and how fast by progress in [0, 1], and the update in float32 of a model in another dtype.

Matrices inside the network take Muon (momentum, then the nearest semi-orthogonal matrix by Newton-Schulz;
Jordan et al. 2024); embeddings, head, norms, biases and the patch kernel take AdamW. With several processes
each orthogonalises its share of the matrices and the updates are summed.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

KINDS: tuple[str, ...] = ("short", "line", "paragraph", "table", "formula")
EXAMPLES: dict[str, int] = {"short": 20, "line": 12, "paragraph": 5, "table": 5, "formula": 12}
"""Crops of one micro-batch: about 2,000 decoder rows each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curriculum:
    """Stage borders as shares of the budget.

    Until `vision_only` the image features learn alone; until `alignment` mostly short text; then the full
    mix, which never drops lines. From `decay` on the learning rate falls linearly to zero.
    """

    vision_only: float = 0.04
    alignment: float = 0.16
    decay: float = 0.5

    def micro_batches(self, progress: float, rng: np.random.Generator) -> tuple[str, ...]:
        """Kinds of the micro-batches of one step."""
        if progress < self.vision_only:
            return ("line", str(rng.choice(["short", "paragraph", "table"])))
        if progress < self.alignment:
            return ("short", "line", str(rng.choice(["short", "formula", "table"], p=[0.4, 0.3, 0.3])))
        text = str(rng.choice(["short", "line", "paragraph"], p=[0.25, 0.45, 0.3]))
        return (text, str(rng.choice(["table", "formula", "line"], p=[0.4, 0.35, 0.25])))

    def rate(self, progress: float, *, warmup: float = 0.005) -> float:
        """Learning-rate factor in [0, 1]: warm-up, stable, linear decay."""
        if progress < warmup:
            return progress / warmup
        if progress < self.decay:
            return 1.0
        return max(0.0, (1.0 - progress) / (1.0 - self.decay))


FROM_CHECKPOINT = Curriculum(vision_only=0.0, alignment=0.0, decay=0.1)
"""A model that reads already: the full mix from the first step, decay nearly throughout."""


NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)


@functools.cache
def fast_dtype(device: torch.device) -> torch.dtype:
    """bfloat16 where the hardware multiplies it, else float32 (emulated, bfloat16 is ten times slower)."""
    if device.type != "cpu":
        return torch.bfloat16
    native = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return torch.bfloat16 if native else torch.float32


def orthogonalise(g: Tensor, *, steps: int = 5) -> Tensor:
    """Approximate polar factor of a stack of matrices [K, m, n], in the dtype of `fast_dtype`."""
    a, b, c = NEWTON_SCHULZ
    x = g.to(fast_dtype(g.device))
    flip = x.shape[1] > x.shape[2]
    if flip:
        x = x.mT
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(steps):
        s = x @ x.mT
        x = a * x + (b * s + c * (s @ s)) @ x
    polar: Tensor = (x.mT if flip else x).float()
    return polar


def as_matrix(t: Tensor) -> Tensor:
    """Convolution kernels as matrices: output channels by everything else."""
    return t.reshape(t.shape[0], -1)


class Optimizer:
    """Masters in float32, one `step` for everything; state goes into and comes from a flat dictionary.

    The master of a float32 parameter is the parameter itself.
    """

    def __init__(
        self,
        named: Iterable[tuple[str, nn.Parameter]],
        *,
        rank: int = 0,
        world: int = 1,
        weight_decay: float = 0.01,
    ) -> None:
        self.params = dict(named)
        self.rank, self.world, self.weight_decay = rank, world, weight_decay
        self.masters = {n: p.detach().float() for n, p in self.params.items()}
        self.steps = 0
        self.matrices = [n for n, p in self.params.items() if _is_matrix(n, p)]
        self.others = [n for n in self.params if n not in set(self.matrices)]
        zeros = {n: torch.zeros_like(m) for n, m in self.masters.items()}
        self.momentum = {n: zeros[n] for n in self.matrices}
        self.first = {n: zeros[n] for n in self.others}
        self.second = {n: torch.zeros_like(zeros[n]) for n in self.others}

    def step(self, *, matrix_lr: float, other_lr: float) -> float:
        """Average gradients over processes, update masters and parameters; returns the gradient norm."""
        self.steps += 1
        grads = self._averaged_gradients()
        norm = float(torch.stack(torch._foreach_norm(list(grads.values()))).norm())
        self._muon(grads, lr=matrix_lr)
        self._adamw(grads, lr=other_lr, clip=min(1.0, 1.0 / (norm + 1e-6)))
        with torch.no_grad():
            for name, p in self.params.items():
                if p.dtype != torch.float32:
                    p.copy_(self.masters[name])
                p.grad = None
        return norm

    def _averaged_gradients(self) -> dict[str, Tensor]:
        grads = {
            n: torch.zeros_like(self.masters[n]) if p.grad is None else p.grad.float()
            for n, p in self.params.items()
        }
        if self.world > 1:
            flat = torch.cat([g.reshape(-1) for g in grads.values()])
            dist.all_reduce(flat)
            pieces = (flat / self.world).split_with_sizes([g.numel() for g in grads.values()])
            grads = {n: piece.view_as(g) for (n, g), piece in zip(grads.items(), pieces, strict=True)}
        return grads

    def _muon(self, grads: dict[str, Tensor], *, lr: float, momentum: float = 0.95) -> None:
        groups: dict[torch.Size, list[str]] = defaultdict(list)
        for name in self.matrices:
            groups[as_matrix(self.masters[name]).shape].append(name)
        velocities = [self.momentum[n] for n in self.matrices]
        torch._foreach_mul_(velocities, momentum)
        torch._foreach_add_(velocities, [grads[n] for n in self.matrices])
        updates = {}
        for shape, names in groups.items():
            mine = names[self.rank :: self.world]
            if not mine:
                continue
            stack = torch.stack([as_matrix(grads[n]) for n in mine])
            stack.add_(torch.stack([as_matrix(self.momentum[n]) for n in mine]), alpha=momentum)
            scale = max(1.0, shape[0] / shape[1]) ** 0.5
            for name, u in zip(mine, orthogonalise(stack) * scale, strict=True):
                updates[name] = u.view_as(self.masters[name])
        if self.world > 1:
            updates = {n: updates.get(n, torch.zeros_like(self.masters[n])) for n in self.matrices}
            flat = torch.cat([u.reshape(-1) for u in updates.values()]).to(fast_dtype(torch.device("cpu")))
            dist.all_reduce(flat)
            pieces = flat.float().split_with_sizes([u.numel() for u in updates.values()])
            updates = {n: p.view_as(u) for (n, u), p in zip(updates.items(), pieces, strict=True)}
        with torch.no_grad():
            for name, u in updates.items():
                self.masters[name].mul_(1 - lr * self.weight_decay).add_(u, alpha=-lr)

    def _adamw(self, grads: dict[str, Tensor], *, lr: float, clip: float) -> None:
        b1, b2, eps = 0.9, 0.98, 1e-8
        c1, c2 = 1 - b1**self.steps, 1 - b2**self.steps
        for name in self.others:
            g = grads[name] * clip
            self.first[name].mul_(b1).add_(g, alpha=1 - b1)
            self.second[name].mul_(b2).addcmul_(g, g, value=1 - b2)
            self.masters[name].addcdiv_(  # shares memory with a float32 parameter, not its graph
                self.first[name] / c1, (self.second[name] / c2).sqrt() + eps, value=-lr
            )

    def state(self) -> dict[str, dict[str, Tensor]]:
        """Everything a resumed run needs, tensors only."""
        return {
            "masters": self.masters,
            "momentum": self.momentum,
            "first": self.first,
            "second": self.second,
        }

    def load(self, state: dict[str, dict[str, Tensor]], *, steps: int) -> None:
        """Inverse of `state`; parameters take the masters' values."""
        self.steps = steps
        for field, tensors in state.items():
            for name, t in tensors.items():
                getattr(self, field)[name].copy_(t)
        with torch.no_grad():
            for name, p in self.params.items():
                p.copy_(self.masters[name])


def _is_matrix(name: str, p: nn.Parameter) -> bool:
    inside = "layers." in name or "blocks." in name or "merger." in name or "downsample." in name
    return inside and p.ndim in (2, 4)
