"""The written-out gradients and the packed attention equal their plain spelling."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gravbench.workshop.training.glm import Span, attend, attend_densely, rms_norm, rotate
from gravbench.workshop.training.layout import NO_TARGET, NO_TEACHER
from gravbench.workshop.training.losses import draft_loss


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def gradients(value: torch.Tensor, *leaves: torch.Tensor) -> list[torch.Tensor]:
    weights = torch.randn(value.shape, generator=torch.Generator().manual_seed(9))
    return [value.detach(), *torch.autograd.grad((value * weights).sum(), leaves)]


def assert_equal(got: list[torch.Tensor], want: list[torch.Tensor]) -> None:
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("shape", [(5, 8), (5, 3, 8)])
def test_rms_norm_and_its_gradients(shape: tuple[int, ...]) -> None:
    x, weight = drawn(*shape), drawn(8, seed=1)
    got = rms_norm(x, SimpleNamespace(weight=weight, variance_epsilon=1e-3))
    want = x / torch.sqrt(x.square().mean(-1, keepdim=True) + 1e-3) * weight
    assert_equal(gradients(got, x, weight), gradients(want, x, weight))


def test_rotation_turns_each_pair_of_channels() -> None:
    x, angle = drawn(4, 2, 6), torch.rand(4, 3) * 6
    cos, sin = (f(angle)[:, None].repeat_interleave(2, -1) for f in (torch.cos, torch.sin))
    turned = torch.stack((-x[..., 1::2], x[..., 0::2]), -1).flatten(-2)
    got = rotate(x, torch.polar(torch.ones_like(angle), angle))
    assert_equal(gradients(got, x), gradients(x * cos + turned * sin, x))


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.sampled_from([1, 2]), st.integers(0, 99))
def test_packed_attention_equals_one_masked_attention(sizes: list[int], groups: int, seed: int) -> None:
    """Spans with and without a bias, keys shared by two spans, grouped heads: values and gradients."""
    rng = np.random.default_rng(seed)
    spans, first = [], 0
    rows = sum(sizes)
    dense = torch.full((rows, rows), float("-inf"))
    for size in sizes:
        cut = int(rng.integers(1, size + 1))
        for a, b in ((0, cut), (cut, size)):
            if a == b:
                continue
            hidden = torch.from_numpy(rng.random((b - a, size)) < 0.4)
            hidden[torch.arange(b - a), torch.arange(a, b)] = False
            bias = (
                torch.zeros(b - a, size).masked_fill_(hidden, float("-inf")) if rng.random() < 0.7 else None
            )
            spans.append(Span(first + a, first + b, first, first + size, bias))
            dense[first + a : first + b, first : first + size] = 0.0 if bias is None else bias
        first += size
    q, k, v = drawn(rows, 4, 8), drawn(rows, 4 // groups, 8, seed=1), drawn(rows, 4 // groups, 8, seed=2)
    keys, values = (t.repeat_interleave(groups, 1).transpose(0, 1) for t in (k, v))
    share = torch.softmax(q.transpose(0, 1) @ keys.mT * 8**-0.5 + dense, -1)
    want = (share @ values).transpose(0, 1).flatten(1)
    plain = gradients(want, q, k, v)
    assert_equal(gradients(attend(q, k, v, spans), q, k, v), plain)
    if groups == 1:
        assert_equal(gradients(attend_densely(q, k, v, spans), q, k, v), plain)


def test_a_draft_row_learns_what_the_ar_row_of_its_slot_says() -> None:
    """Rows: two clean, then drafts of slots 0, 1 and 2; the last has no clean row and keeps its label."""
    batch = SimpleNamespace(
        label=torch.tensor([NO_TARGET, 1, 2, 1, 2, 0]),
        kind=torch.tensor([0, 1, 1, 2, 2, 2]),
        teacher=torch.tensor([NO_TEACHER, NO_TEACHER, NO_TEACHER, 1, 2, NO_TEACHER]),
    )
    logits = drawn(5, 3)
    soft, log_q = logits.detach().softmax(-1), logits.log_softmax(-1)
    want = -((soft[0] * log_q[2]).sum() + (soft[1] * log_q[3]).sum() + log_q[4, 0]) / 3
    assert_equal(gradients(draft_loss(logits, batch, agree=True), logits), gradients(want, logits))
    log_q = logits.log_softmax(-1)
    plain = -(log_q[2, 1] + log_q[3, 2] + log_q[4, 0]) / 3
    assert_equal(gradients(draft_loss(logits, batch, agree=False), logits), gradients(plain, logits))
