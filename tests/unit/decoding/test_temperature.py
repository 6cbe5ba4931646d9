"""Above temperature zero every exact strategy writes what `ar` draws with the same keys."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2
from strategy_support import ARMS, LONG, check_identities, together, with_files

from gravbench.arms import identity_base, speed_base
from gravbench.backends.toy import EOS, ToyModel, ToyTable
from gravbench.backends.transformers_local import TransformersLocal
from gravbench.decoding.answers import draw_of
from gravbench.decoding.decode_loop import Decoded, Job, decode_jobs
from gravbench.decoding.sampling import Draw, Law
from gravbench.decoding.strategies import parse_strategy
from gravbench.decoding.tracing import TraceRecorder
from gravbench.errors import UsageError
from gravbench.records import DecodeConfig, Request


def with_draw(arm: str, draw: str) -> str:
    return f"{arm}{',' if ':' in arm else ':'}{draw}"


@pytest.fixture(scope="module", params=["selfspec:block=4", *ARMS])
def arm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("texts") / "texts.jsonl"
    lines = [{"sample_id": str(name), "token_ids": list(LONG)} for name in range(4)]
    path.write_text("\n".join(map(json.dumps, lines)))
    return with_files(str(request.param), path)


@given(
    lengths=st.lists(st.integers(0, 40), min_size=1, max_size=4),
    budget=st.integers(1, 40),
    draw=st.sampled_from(
        ["temperature=0.2", "seed=3,temperature=0.3", "temperature=0.5,top_p=0.9", "temperature=1.5,top_k=2"]
    ),
    wrong_positions=st.sets(st.integers(0, 45)),
)
@settings(max_examples=10)
def test_it_writes_what_ar_draws(
    arm: str, lengths: list[int], budget: int, draw: str, wrong_positions: set[int]
) -> None:
    """Cold draws stay on the script for a while, so that drafts are accepted; hot ones leave it at once."""
    check_draws(arm, lengths, budget, draw, wrong_positions)


@pytest.mark.slow
@pytest.mark.thousand
@given(
    length=st.integers(0, 40),
    budget=st.integers(1, 40),
    temperature=st.sampled_from([0.2, 0.5, 1, 1.5]),
    top_p=st.sampled_from([1, 0.9]),
    seed=st.integers(0, 9999),
    wrong_positions=st.sets(st.integers(0, 45)),
)
@settings(max_examples=1000)
def test_it_writes_what_ar_draws_a_thousand_times(
    arm: str,
    length: int,
    budget: int,
    temperature: float,
    top_p: float,
    seed: int,
    wrong_positions: set[int],
) -> None:
    draw = f"seed={seed},temperature={temperature},top_p={top_p}"
    check_draws(arm, [length], budget, draw, wrong_positions, batches=(1,))


def check_draws(
    arm: str,
    lengths: list[int],
    budget: int,
    draw: str,
    wrong_positions: set[int],
    *,
    batches: tuple[int, ...] = (1, 3),
) -> None:
    """The arm writes what `ar` draws alike, alone and together."""
    scripts = [(*LONG[i : i + length], EOS) for i, length in enumerate(lengths)]
    budgets = [budget] * len(scripts)
    expected = together(scripts, with_draw("ar", draw), budgets=budgets, batch=1)
    for batch in batches:
        found = together(
            scripts,
            with_draw(arm, draw),
            budgets=budgets,
            batch=batch,
            wrong_positions=tuple(wrong_positions),
        )
        assert [answer for answer, _ in found] == [answer for answer, _ in expected]
        for _, trace in found:
            check_identities(trace)


@pytest.mark.parametrize("arm", ["selfspec:block=4", "selfspec1:block=4", "tree:block=4,nodes=15"])
def test_a_random_model_writes_what_ar_draws(
    arm: str, backend: TransformersLocal, make_request: Callable[..., Request]
) -> None:
    for draw in ("seed=1,temperature=0.7", "temperature=1.5,top_p=0.9"):
        asked = [make_request(variant=i, budget=30) for i in range(3)]

        def ids(one: str, asked: Sequence[Request] = asked) -> list[tuple[int, ...]]:
            config = DecodeConfig(strategy=one, max_new_tokens=30)
            return [g.token_ids for g in backend.generate_batch(asked, config)]

        greedy, drawn = ids("ar"), ids(with_draw("ar", draw))
        assert drawn != greedy and ids(with_draw(arm, draw)) == drawn
        assert ids(with_draw(arm, f"batch=3,{draw}")) == drawn


class FourTokens(ToyModel):
    """Laws over tokens 2 to 5 that hang on everything seen: row n of a table, n hashed from it."""

    TABLE = torch.randn(7, 4, generator=torch.Generator().manual_seed(5))

    def _logits(self, winners: Sequence[int]) -> torch.Tensor:  # type: ignore[override]
        logits = torch.full((len(winners), 98), -torch.inf)
        logits[:, 2:6] = self.TABLE[[winner % 7 for winner in winners]]
        return logits


def joint_law(model: FourTokens, law: Law) -> dict[tuple[int, ...], float]:
    """P(three tokens), by enumeration."""
    state, _ = model.prefill(ask("0"), budget=3, trace=TraceRecorder(lambda: 0))

    def after(seen: tuple[int, ...]) -> torch.Tensor:
        logits = model._logits([model._continuation(state, seen)])[0]
        return torch.softmax(logits.double() / law.temperature, -1)

    found = {}
    for a, b, c in product(range(2, 6), repeat=3):
        found[a, b, c] = float(after(())[a] * after((a,))[b] * after((a, b))[c])
    return found


def ask(name: str) -> Request:
    return Request(request_id=name, sample_id=name, task="text", image_path="none", max_new_tokens=1)


def chi_square(arm: str, draw: Draw, runs: int, *, same_key: bool = False) -> tuple[float, float]:
    """The statistic of `runs` answers of three tokens, and the limit of p = 1e-4."""
    model = FourTokens(ToyTable(), script_of=lambda _: (EOS,))
    jobs = [
        Job(
            request=ask(str(i % 40) if same_key else str(i)),
            budget=3,
            trace=TraceRecorder(lambda: 0),
            draw=draw,
        )
        for i in range(runs)
    ]
    seen: Counter[tuple[int, ...]] = Counter()
    for answer in decode_jobs(model, jobs, strategy=parse_strategy(arm), batch=50):
        assert isinstance(answer, Decoded)
        seen[answer.tokens] += 1
    expected = {tokens: runs * p for tokens, p in joint_law(model, draw.law).items()}
    rare = [tokens for tokens, n in expected.items() if n < 5]
    cells = [(seen[tokens], n) for tokens, n in expected.items() if n >= 5]
    if rare:
        cells.append((sum(seen[tokens] for tokens in rare), sum(expected[tokens] for tokens in rare)))
    assert sum(n for n, _ in cells) == runs
    return sum((o - e) ** 2 / e for o, e in cells), float(chi2.isf(1e-4, len(cells) - 1))


@pytest.mark.parametrize(
    "law_arm",
    [
        "ar",
        "selfspec:block=2",
        "tree:block=2,branch=3,nodes=7",
        *(pytest.param(arm, marks=[pytest.mark.slow, pytest.mark.thousand]) for arm in ARMS),
    ],
)
def test_three_tokens_have_the_law_of_the_model(law_arm: str, tmp_path: Path) -> None:
    """Texts are supplied in three orders of the four tokens, so that some of their drafts are accepted."""
    path = tmp_path / "texts.jsonl"
    orders = ([2, 3, 4, 5], [5, 4, 3, 2], [3, 5, 2, 4])
    lines = [{"sample_id": str(name), "token_ids": ids * 2} for name in range(800) for ids in orders]
    path.write_text("\n".join(map(json.dumps, lines)))
    statistic, limit = chi_square(with_files(law_arm, path), Draw(Law(temperature=0.8), seed=11), 800)
    assert statistic < limit


def test_the_same_test_refuses_draws_that_are_not_independent() -> None:
    """The negative control: forty keys, used again and again."""
    statistic, limit = chi_square("ar", Draw(Law(temperature=0.8), seed=11), 800, same_key=True)
    assert statistic > 5 * limit


def test_an_arm_is_held_against_ar_that_draws_alike() -> None:
    arms = ["ar", "ar:temperature=1", "selfspec", "selfspec:block=4,temperature=1", "selfspec:temperature=2"]
    assert [identity_base(arm, arms) for arm in arms] == [None, None, "ar", "ar:temperature=1", None]
    assert [speed_base(arm, arms) for arm in arms] == [None, None, "ar", "ar:temperature=1", None]


def test_how_tokens_are_drawn_is_read_from_the_arm() -> None:
    assert draw_of("selfspec:block=4") is None
    assert draw_of("ar:seed=7,temperature=0.5,top_k=3") == Draw(Law(temperature=0.5, top_k=3), 7)


@pytest.mark.parametrize(
    ("arm", "named"),
    [
        ("ar:temperature=0", "temperature is '0', expected a number from 0.01 to 100"),
        ("ar:top_p=0.9", "top_p without temperature"),
        ("selfspec:temperature=1,top_p=2", "top_p is '2'"),
        ("blockdiff:temperature=1", "verifies nothing exactly"),
        ("hsd:tau=0.5,temperature=1,texts=x", "verifies nothing exactly"),
    ],
)
def test_a_way_of_drawing_that_makes_no_sense_is_refused(arm: str, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        parse_strategy(arm)
