"""Optimisation in float32 of a model that computes in another dtype.

Matrices inside the network take Muon (momentum, then the nearest semi-orthogonal matrix by Newton-Schulz;
Jordan et al. 2024); embeddings, head, norms, biases and the patch kernel take AdamW. With several processes
each orthogonalises its share of the matrices and the updates are summed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)


def orthogonalise(g: Tensor, *, steps: int = 5) -> Tensor:
    """Approximate polar factor of a stack of matrices [K, m, n], computed in bfloat16."""
    a, b, c = NEWTON_SCHULZ
    x = g.bfloat16()
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
    """Masters in float32, one `step` for everything; state goes into and comes from a flat dictionary."""

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
        self.masters = {n: p.detach().float().clone() for n, p in self.params.items()}
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
        norm = float(torch.sqrt(sum((g.square().sum() for g in grads.values()), torch.zeros(()))))
        self._muon(grads, lr=matrix_lr)
        self._adamw(grads, lr=other_lr, clip=min(1.0, 1.0 / (norm + 1e-6)))
        with torch.no_grad():
            for name, p in self.params.items():
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
            self.momentum[name].mul_(momentum).add_(grads[name])
        updates = {n: torch.zeros_like(self.masters[n]) for n in self.matrices}
        for shape, names in groups.items():
            mine = names[self.rank :: self.world]
            if not mine:
                continue
            stack = torch.stack([as_matrix(grads[n] + momentum * self.momentum[n]) for n in mine])
            scale = max(1.0, shape[0] / shape[1]) ** 0.5
            for name, u in zip(mine, orthogonalise(stack) * scale, strict=True):
                updates[name] = u.view_as(self.masters[name])
        if self.world > 1:
            flat = torch.cat([u.reshape(-1) for u in updates.values()]).bfloat16()
            dist.all_reduce(flat)
            pieces = flat.float().split_with_sizes([u.numel() for u in updates.values()])
            updates = {n: p.view_as(u) for (n, u), p in zip(updates.items(), pieces, strict=True)}
        for name, u in updates.items():
            self.masters[name].mul_(1 - lr * self.weight_decay).add_(u, alpha=-lr)

    def _adamw(self, grads: dict[str, Tensor], *, lr: float, clip: float) -> None:
        b1, b2, eps = 0.9, 0.98, 1e-8
        c1, c2 = 1 - b1**self.steps, 1 - b2**self.steps
        for name in self.others:
            g = grads[name] * clip
            self.first[name].mul_(b1).add_(g, alpha=1 - b1)
            self.second[name].mul_(b2).addcmul_(g, g, value=1 - b2)
            self.masters[name].addcdiv_(
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
