"""`mtp` drafts with a head of its own, exactly, and refuses a head that is not there or does not fit."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from checkpoint_support import write_random_head
from safetensors.torch import load_file, save_file
from strategy_support import LONG, check_on_checkpoint, on_toy

from gravbench.backends.glm.heads import save_head, weights_digest
from gravbench.backends.glm.mtp import MtpHead
from gravbench.backends.toy import EOS
from gravbench.backends.transformers_local import TransformersLocal
from gravbench.decoding.rows import Rows
from gravbench.decoding.tracing import TraceRecorder
from gravbench.decoding.window import Needs, Step, causal_window
from gravbench.errors import EngineError, UsageError
from gravbench.records import DecodeConfig, Request


def test_a_head_that_is_right_commits_k_and_one_more_a_round() -> None:
    for steps in (1, 3, 5):
        _, trace, rounds = on_toy(LONG, f"mtp:steps={steps}", budget=1 + 6 * (steps + 1))
        assert set(rounds.committed) == {steps + 1} and len(rounds.committed) == 6
        assert trace.counters.fwd_head == 6 * steps and trace.counters.fwd_verify == 6
        assert trace.counters.decode_tokens == 6 * (steps + 1)


def test_a_head_that_is_always_wrong_costs_forwards_and_no_token() -> None:
    decoded, trace, rounds = on_toy(LONG, "mtp", budget=20, wrong_positions=tuple(range(100)))
    assert decoded.tokens == LONG[:20] and set(rounds.committed) == {1}
    assert trace.counters.draft_accepted == 0


def test_nothing_is_drafted_behind_an_end_or_beyond_the_budget() -> None:
    _, trace, rounds = on_toy((*LONG[:2], EOS), "mtp:steps=9")
    assert (rounds.offered, trace.counters.fwd_head) == ((2,), 2)
    _, _, rounds = on_toy(LONG, "mtp:steps=9", budget=4)
    assert rounds.offered == (3,)


def test_a_model_without_the_head_is_refused(
    backend: TransformersLocal, make_request: Callable[..., Request]
) -> None:
    with pytest.raises(UsageError, match="no head 'mtp'"):
        backend.check(["mtp"])
    with pytest.raises(UsageError, match="no head 'mtp'"):
        backend.generate(make_request(), DecodeConfig(strategy="mtp", max_new_tokens=4))


@pytest.fixture(scope="module", params=["normed", "raw"])
def headed(
    request: pytest.FixtureRequest,
    checkpoint: Path,
    grouped_checkpoint: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> TransformersLocal:
    """Checkpoints with a random head: of one form as a file of its own, of the other as GLM-OCR keeps it."""
    raw = request.param == "raw"
    folder = tmp_path_factory.mktemp("headed") / "model"
    shutil.copytree(grouped_checkpoint if raw else checkpoint, folder)
    write_random_head(folder, "mtp", carry="raw" if raw else "normed", zero_first="yes" if raw else "no")
    return TransformersLocal(folder)


def test_a_random_head_beside_a_random_model_gives_the_ids_of_ar(
    headed: TransformersLocal, make_request: Callable[..., Request]
) -> None:
    headed.check(["mtp"])
    for arm in ("mtp", "mtp:steps=6"):
        traces = check_on_checkpoint(headed, make_request, arm, budget=40)
        assert sum(trace.counters.fwd_head for trace in traces) > len(traces)


@torch.inference_mode()
def test_a_drafted_chain_is_that_of_one_pass_over_all_rows(
    headed: TransformersLocal, make_request: Callable[..., Request]
) -> None:
    """Against the head written plainly: all rows at once, no cache, no doubled stream."""
    step, ask = headed.step_model, make_request(variant=1)
    step.abandon()
    step.expect(1, Needs(rows_max=8, hidden=True, head="mtp"))
    state, prefix = step.prefill(ask, budget=20, trace=TraceRecorder(lambda: 0))
    given, hidden, head = state.prefix, prefix.hidden(range(len(prefix))), step.head
    assert given is not None and isinstance(head, MtpHead)
    head.prefill(state, prefix)
    tokens = [7, 11, 5]
    got = [
        Rows(head.step([state], [Step("head", causal_window([token]))])).logits().clone() for token in tokens
    ]
    first = len(prefix) - 1
    turn = torch.cat((given.turn[:first], step.decoder.rope.response(first + state.offset, 3)))
    embedded = torch.cat((given.embedded[1:], step.decoder.embed(torch.tensor(tokens))))
    if head._zero_first:
        embedded[0] = 0
    fresh = head._decoder.new_pool()
    for count in (1, 2, 3):  # the carried state of each row comes from the pass before it
        inputs = head._join(embedded[: first + count], hidden)
        taps: list[torch.Tensor] = []
        normed = head._decoder.forward(
            inputs, turn[: first + count], fresh.claim(100), None, tap=((0,), taps)
        )
        torch.testing.assert_close(head._decoder.logits(normed[-2:])[-1:], got[count - 1], atol=1e-3, rtol=0)
        hidden = torch.cat((hidden, (taps[0] if head._raw_carry else normed)[-1:]))
    head.truncate(state, first)
    assert head.length(state) == first
    step.abandon()


def test_the_layer_of_a_released_checkpoint_is_read(
    checkpoint: Path, tmp_path: Path, make_request: Callable[..., Request]
) -> None:
    folder = Path(shutil.copytree(checkpoint, tmp_path / "released"))
    write_random_head(folder, "mtp")
    layer = load_file(folder / "mtp.safetensors")
    own = load_file(folder / "model.safetensors")
    spare = {f"model.language_model.layers.2.{name}": tensor for name, tensor in layer.items()}
    spare["model.language_model.layers.2.shared_head.head.weight"] = own["lm_head.weight"].clone()
    save_file(own | spare, folder / "model.safetensors", {"format": "pt"})
    ask, config = make_request(budget=30), DecodeConfig(strategy="mtp", max_new_tokens=30)
    beside = TransformersLocal(folder).generate(ask, config)
    (folder / "mtp.safetensors").unlink()
    within = TransformersLocal(folder)
    found = within.generate(ask, config)
    assert found.trace is not None and beside.trace is not None
    assert (found.token_ids, found.trace.rounds) == (beside.token_ids, beside.trace.rounds)
    assert any("multi-token prediction" in warning for warning in within.describe().warnings)


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        ("other sizes", r"eh_proj\.weight is torch.bfloat16 \[5, 5\]"),
        ("a tensor short", r"hnorm\.weight is missing"),
        ("not a number", "not finite"),
        ("another model", "made for the weights 000000000000"),
        ("another kind", "format and head are"),
        ("cut off", "truncated"),
        ("an unknown carry", "carry is 'both', expected normed or raw"),
    ],
)
def test_a_head_that_does_not_fit_is_refused_before_any_sample(broken: Path, damage: str, named: str) -> None:
    path = write_random_head(broken, "mtp")
    weights = load_file(path)
    metadata = {"weights_sha256": weights_digest([broken / "model.safetensors"])}
    save_head(path, "mtp", weights, **metadata)
    TransformersLocal(broken).check(["mtp"])
    if damage == "other sizes":
        weights["eh_proj.weight"] = torch.zeros(5, 5)
    elif damage == "a tensor short":
        del weights["hnorm.weight"]
    elif damage == "not a number":
        weights["enorm.weight"][0] = torch.nan
    elif damage == "another model":
        metadata["weights_sha256"] = "0" * 64
    elif damage == "an unknown carry":
        metadata["carry"] = "both"
    save_head(path, "blockhead" if damage == "another kind" else "mtp", weights, **metadata)
    if damage == "cut off":
        path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(EngineError, match=named) as refused:
        TransformersLocal(broken).check(["ar", "mtp"])
    assert str(path) in str(refused.value) or str(broken) in str(refused.value)


def test_a_head_is_part_of_what_a_checkpoint_is(broken: Path) -> None:
    before = TransformersLocal(broken).describe().model_digest
    write_random_head(broken, "mtp")
    assert TransformersLocal(broken).describe().model_digest != before
