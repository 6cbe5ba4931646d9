"""Every strategy that verifies its drafts exactly writes the tokens of `ar`, whatever it drafts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from checkpoint_support import HEADS, write_random_checkpoint, write_random_head
from hypothesis import given, settings
from hypothesis import strategies as st
from strategy_support import (
    ARMS,
    LONG,
    check_batches,
    check_cache,
    check_ends_and_budgets,
    check_identities,
    check_on_checkpoint,
    on_toy,
    with_files,
)

from gravbench.backends.referee import next_logits
from gravbench.backends.toy import EOS, MASK
from gravbench.backends.transformers_local import TransformersLocal
from gravbench.decoding.strategies import STRATEGIES, parse_strategy
from gravbench.errors import UsageError
from gravbench.records import TASKS, DecodeConfig, Generation, Request

EXACT = {"ar", "selfspec"} | {arm.partition(":")[0] for arm in ARMS}


@pytest.fixture(scope="module")
def supplied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts for the samples "0" to "5": the script with errors, a short one, a loop."""
    texts = [[*LONG[:20], *LONG[22:50], 3, *LONG[51:], *LONG[60:]], [5], [4] * 30]
    lines = [{"sample_id": str(name), "token_ids": text} for name in range(6) for text in texts]
    path = tmp_path_factory.mktemp("texts") / "texts.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


@pytest.fixture(scope="module", params=ARMS)
def arm(request: pytest.FixtureRequest, supplied: Path) -> str:
    return with_files(str(request.param), supplied)


def widest(arm: str) -> int:
    """Tokens that a round of the arm commits at most."""
    if arm in ("selfspec:block=4", "selfspec:block=4,legacy=1"):
        return 4 if "legacy" in arm else 6
    return next(
        width
        for known, width in ARMS.items()
        if arm.startswith(known.partition("PATH")[0].partition("SETTING")[0])
    )


CASES = {
    "length": st.integers(0, 40),
    "budget": st.integers(1, 50),
    "wrong_positions": st.sets(st.integers(0, 45)),
    "wrong_slots": st.sets(st.integers(1, 6)),
    "mask_id": st.sampled_from([MASK, 5]),
}


def check_case(
    arm: str, length: int, budget: int, wrong_positions: set[int], wrong_slots: set[int], mask_id: int
) -> None:
    script = (*LONG[:length], EOS)
    decoded, trace, rounds = on_toy(
        script,
        arm,
        budget=budget,
        wrong_positions=tuple(wrong_positions),
        wrong_slots=tuple(wrong_slots),
        mask_token_id=mask_id,
    )
    assert decoded.tokens == script[:budget]
    assert max(rounds.committed, default=0) <= widest(arm)
    check_identities(trace)


@given(**CASES)
@settings(max_examples=50)
def test_it_writes_the_tokens_of_ar_whatever_it_drafts(arm: str, **case: object) -> None:
    check_case(arm, **case)  # type: ignore[arg-type]


DRAFTING = [arm for arm in ARMS if arm.partition(":")[0] not in ("lookup", "hsd", "mtp", "tuned")]


@pytest.mark.parametrize("masked", ["selfspec:block=4", *DRAFTING])
def test_a_wrong_mask_id_keeps_the_tokens_and_loses_the_drafts(masked: str) -> None:
    script = (*LONG[:60], EOS)
    right, trained, _ = on_toy(script, masked)
    wrong, guessed, _ = on_toy(script, masked, mask_token_id=50)
    assert wrong.tokens == right.tokens == script
    assert guessed.counters.draft_accepted < trained.counters.draft_accepted / 4


@pytest.mark.slow
@pytest.mark.thousand
@pytest.mark.parametrize("arm", [*ARMS, "selfspec:block=4", "selfspec:block=4,legacy=1"], indirect=True)
@given(**CASES)
@settings(max_examples=1000)
def test_it_writes_the_tokens_of_ar_a_thousand_times(arm: str, **case: object) -> None:
    check_case(arm, **case)  # type: ignore[arg-type]


def test_every_end_and_every_budget_with_slots_wrong_in_turn(arm: str) -> None:
    check_ends_and_budgets(arm, widest=widest(arm), wrong=[(), (1, 2, 3, 4, 5), (2,)])


@given(
    work=st.lists(st.tuples(st.integers(0, 40), st.integers(1, 50)), min_size=1, max_size=6),
    batch=st.integers(2, 6),
    wrong_positions=st.sets(st.integers(0, 45)),
)
@settings(max_examples=25)
def test_a_ragged_batch_gives_what_single_runs_give(
    arm: str, work: list[tuple[int, int]], batch: int, wrong_positions: set[int]
) -> None:
    if "texts=" in arm:
        work = work[:1] * len(work)  # single runs are all of sample "0": so must the texts be
    check_batches(arm, work, batch, wrong_positions=tuple(wrong_positions))


def test_a_random_model_gives_the_ids_of_ar(
    arm: str, headed_backend: TransformersLocal, make_request: Callable[..., Request], tmp_path: Path
) -> None:
    if "texts=" in arm:
        requests = [make_request(variant=i) for i in range(4)]
        texts = {r.sample_id: list(range(5, 60)) * 2 for r in requests}
        arm = supplied_with(arm, texts, tmp_path)
    check_on_checkpoint(headed_backend, make_request, arm)


def supplied_with(arm: str, texts: Mapping[str, Sequence[int]], folder: Path) -> str:
    """The arm with `texts` in the place of its own."""
    path = folder / "own.jsonl"
    lines = [{"sample_id": name, "token_ids": list(ids)} for name, ids in texts.items()]
    path.write_text("\n".join(map(json.dumps, lines)))
    return f"{arm.partition('texts=')[0]}texts={path}"


def test_the_cache_of_a_random_model_after_each_round_is_that_of_a_fresh_prefill(
    arm: str, headed_backend: TransformersLocal, make_request: Callable[..., Request], tmp_path: Path
) -> None:
    """Five of six tokens that `hsd` is supplied with are right: trees leave gaps in the cache to close."""
    ask = make_request(variant=3)
    if "texts=" in arm:
        right = headed_backend.generate(ask, DecodeConfig(strategy="ar", max_new_tokens=40)).token_ids
        wrong = [token if place % 6 else 5 for place, token in enumerate(right)]
        arm = supplied_with(arm, {ask.sample_id: wrong}, tmp_path)
    check_cache(headed_backend.step_model, ask, arm, budget=24)


Spoken = tuple[TransformersLocal, list[Request], list[Generation]]
"""A random model, what it was asked, and its answers by `ar`."""


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory, make_request: Callable[..., Request]) -> list[Spoken]:
    """Twenty random models, fifty prompts each."""
    requests = [make_request(variant=i // 5, task=TASKS[i % 3], budget=2 + i % 19) for i in range(50)]
    found = []
    for seed in range(20):
        folder = tmp_path_factory.mktemp("random") / str(seed)
        write_random_checkpoint(folder, seed=100 + seed)
        for name in HEADS:
            write_random_head(folder, name)
        model = TransformersLocal(folder)
        decode = DecodeConfig(strategy="ar:batch=10", max_new_tokens=20)
        found.append((model, requests, model.generate_batch(requests, decode)))
    return found


@pytest.mark.slow
@pytest.mark.thousand
def test_random_models_give_the_ids_of_ar_on_a_thousand_prompts(
    arm: str, spoken: list[Spoken], tmp_path: Path
) -> None:
    """Where the two likeliest tokens are within 1e-4 the width of a forward may decide: counted apart."""
    if "texts=" in arm:
        answers = [(asked, answer) for _, *both in spoken for asked, answer in zip(*both, strict=True)]
        arm = supplied_with(arm, {a.sample_id: b.token_ids for a, b in answers}, tmp_path)
    decode = DecodeConfig(strategy=f"{arm}{',' if ':' in arm else ':'}batch=10", max_new_tokens=20)
    ties, accepted = 0, 0
    for model, requests, answers_of_ar in spoken:
        found = model.generate_batch(requests, decode)
        for asked, right, own in zip(requests, answers_of_ar, found, strict=True):
            assert own.trace is not None
            accepted += own.trace.counters.draft_accepted
            if own.token_ids != right.token_ids:
                ties += 1
                assert gap_where_they_part(model, asked, right.token_ids, own.token_ids) < 1e-4
    assert ties < 10
    assert accepted > 0 or parse_strategy(arm).needs(spoken[0][0].step_model.info).head is not None


def gap_where_they_part(
    model: TransformersLocal, asked: Request, right: tuple[int, ...], own: tuple[int, ...]
) -> float:
    """Largest logit - second largest, where `own` leaves the tokens of `ar`."""
    place = next(i for i, (a, b) in enumerate(zip(right, own, strict=False)) if a != b)
    first, second = next_logits(model.step_model, asked, right[:place]).topk(2).values.tolist()
    return first - second


def test_every_strategy_is_either_tested_here_or_called_lossy() -> None:
    own = [name for name in STRATEGIES if STRATEGIES.is_own(name)]
    assert [name for name in own if name not in EXACT and not parse_strategy(name).lossy] == []


@pytest.mark.parametrize(
    "arm",
    ["selfspec1", "edit", "repair", "stream", "diffuspec", "blockdiff", "tree"],
)
def test_a_checkpoint_that_cannot_draft_is_refused_before_any_sample(arm: str) -> None:
    with pytest.raises(UsageError, match=r"block_diffusion\.json"):
        on_toy((EOS,), arm, block_size=None)


@pytest.mark.parametrize(
    ("arm", "named"),
    [
        ("selfspec1:groups=some", "one of last, all, auto"),
        ("edit:passes=9", "from 1 to 8 or auto"),
        ("edit:passes=never", "from 1 to 8 or auto"),
        ("repair:floor=2", "from 0 to 1"),
        ("stream:window=0", "at least 1"),
        ("diffuspec:mass=x", "a number from 0 to 1"),
        ("hsd:tau=0", "from 0.001 to 1"),
        ("blockdiff:select=best", "one of static"),
        ("tree:budget=auto,nodes=0", "from 1 to 1023"),
        ("mtp:steps=0", "from 1 to 64"),
    ],
)
def test_an_option_out_of_range_names_what_it_may_be(arm: str, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        parse_strategy(arm)


@pytest.mark.parametrize("arm", ["selfspec:verify=6", "diffuspec:least=9", "blockdiff:block=4,sub=5"])
def test_more_slots_of_a_block_than_it_has_are_refused(arm: str) -> None:
    with pytest.raises(UsageError, match=r"is \d, the block has [45] slots"):
        on_toy((EOS,), arm, block_size=5)


@pytest.mark.parametrize(
    "arm", ["selfspec1:block=40", "selfspec1:block=8,groups=all", "edit:block=64", "mtp:steps=64"]
)
def test_a_window_wider_than_the_model_is_refused(arm: str) -> None:
    with pytest.raises(UsageError, match="exceeds the cache of 64"):
        on_toy((EOS,), arm, max_positions=64)
