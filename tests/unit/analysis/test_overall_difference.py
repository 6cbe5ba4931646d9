from collections.abc import Sequence

import numpy as np
import pytest
from verdict_support import share_with_interval

from gravbench.analysis.bootstrap import design_of
from gravbench.analysis.quality import (
    metric_of,
    points,
    quality_differences,
    sign_flip_p,
)
from gravbench.errors import NotComparableError
from gravbench.store.schema import ScoreRecord

METRICS = {"text": "text_ned", "table": "table_teds", "formula": "formula_ned"}


def scored(task: str, value: float | None, sample_id: str = "s") -> tuple[ScoreRecord, ...]:
    return (
        ScoreRecord.model_construct(
            sample_id=sample_id,
            arm="x",
            rep=0,
            task=task,
            metric=METRICS[task],
            value=value,
            counts={},
            signature="s",
        ),
    )


def differences(base: Sequence[tuple[str, float]], own: Sequence[tuple[str, float]], **options: int):  # type: ignore[no-untyped-def]
    design = design_of([str(i) for i in range(len(base))], [task for task, _ in base])
    sides = [[scored(task, value) for task, value in side] for side in (base, own)]
    return quality_differences(*sides, design=design, seed=0, resamples=options.get("resamples", 200))


def test_points_are_best_at_100() -> None:
    assert (points("text_ned", 0.0), points("table_teds", 1.0), points("formula_ned", 1.0)) == (100, 100, 0)
    assert metric_of("display_formula_CDM").higher_is_better


def test_composite_is_the_mean_of_component_means_not_of_samples() -> None:
    """Three texts and one table: 3 x 90 and 50 give (90 + 50) / 2, not 80."""
    base = [("text", 0.1)] * 3 + [("table", 0.5)]
    own = [("text", 0.1)] * 3 + [("table", 0.7)]
    found = differences(base, own)
    assert found["crops_overall"].base == pytest.approx(70)
    assert found["crops_overall"].difference == pytest.approx(10)
    assert found["table_teds"].difference == pytest.approx(20)
    assert (found["text_ned"].changed, found["crops_overall"].changed) == (0, 1)


def test_lower_distance_is_a_gain() -> None:
    found = differences([("text", 0.3), ("text", 0.3)], [("text", 0.2), ("text", 0.3)])
    assert found["text_ned"].difference == pytest.approx(5)
    assert "crops_overall" not in found


def page(
    value: float | None, metric: str = "table_TEDS", signature: str = "s", text: str | None = None
) -> ScoreRecord:
    """A page's score; equal values are of equal texts unless `text` says otherwise."""
    return ScoreRecord.model_construct(
        sample_id="p",
        arm="x",
        rep=0,
        task="page",
        metric=metric,
        value=value,
        counts={},
        signature=signature,
        prediction_sha=str(value) if text is None else text,
        reference_sha="r",
    )


def of_pages(base: Sequence[tuple[ScoreRecord, ...]], own: Sequence[tuple[ScoreRecord, ...]]):  # type: ignore[no-untyped-def]
    design = design_of([str(i) for i in range(len(base))], [""] * len(base))
    return quality_differences(base, own, design=design, seed=0, resamples=100)


def test_page_without_a_part_on_one_side_leaves_that_sides_mean_alone() -> None:
    """Tables: 0.8 and none against 0.8 and 0.4, as the official means count them."""
    found = of_pages([(page(0.8),), (page(None),)], [(page(0.8),), (page(0.4),)])["table_TEDS"]
    assert (found.base, found.own, found.n) == (pytest.approx(80), pytest.approx(60), 2)


def test_page_scored_on_one_side_though_both_wrote_the_same_is_not_comparable() -> None:
    """A score that is not there, be it the worst one, makes no gain."""
    base = [(page(0.9, text="t"),), (page(0.1, text="u"),)]
    with pytest.raises(NotComparableError, match="one side only"):
        of_pages(base, [(page(0.9, text="t"),), (page(None, text="u"),)])


def test_metric_that_one_side_lacks_altogether_is_not_comparable() -> None:
    with pytest.raises(NotComparableError, match="one side only"):
        of_pages([(page(0.8),)], [(page(None),)])


def test_other_signature_is_not_comparable() -> None:
    with pytest.raises(NotComparableError, match="signatures"):
        of_pages([(page(0.8),)], [(page(0.8, signature="v2"),)])


def test_official_overall_needs_all_three_parts() -> None:
    two = (page(0.5), page(0.2, "text_block_Edit_dist"))
    three = (*two, page(0.9, "display_formula_CDM"))
    assert "overall" not in of_pages([two], [two])
    assert of_pages([three], [three])["overall"].base == pytest.approx((50 + 80 + 90) / 3)


def test_equal_scores_have_no_width_and_no_p() -> None:
    base = [("text", 0.1)] * 5 + [("table", 0.8)] * 5
    found = differences(base, base)["crops_overall"]
    assert (found.difference, found.low, found.high, found.sign_flip_p) == (0.0, 0.0, 0.0, None)


def test_component_on_too_few_pages_takes_the_limits_of_its_composite_away() -> None:
    """Twelve pages with text and formulas, four with a table: neither the table nor Overall has limits."""
    rng = np.random.default_rng(1)

    def side(tables: int) -> list[tuple[ScoreRecord, ...]]:
        values = rng.uniform(0.5, 0.9, (12, 3))
        return [
            (
                page(float(text), "text_block_Edit_dist"),
                page(float(formula), "display_formula_CDM"),
                *([page(float(table))] if i < tables else []),
            )
            for i, (text, formula, table) in enumerate(values)
        ]

    few, enough = of_pages(side(4), side(4)), of_pages(side(12), side(12))
    assert (few["table_TEDS"].low, few["overall"].low) == (None, None)
    assert few["text_block_Edit_dist"].low is not None
    assert few["overall"].parts == {"text_block_Edit_dist": 12, "table_TEDS": 4, "display_formula_CDM": 12}
    assert enough["overall"].low is not None


def test_page_scored_on_one_side_is_counted() -> None:
    base = [(page(0.5),)] * 6
    own = [(page(0.5),)] * 5 + [(page(None),)]
    assert of_pages(base, own)["table_TEDS"].one_sided == 1
    assert of_pages(base, base)["table_TEDS"].one_sided == 0


def test_score_on_one_side_only_is_not_comparable() -> None:
    with pytest.raises(NotComparableError, match="one side only"):
        quality_differences(
            [scored("text", 0.1)],
            [scored("text", None)],
            design=design_of(["a"], [""]),
            seed=0,
            resamples=100,
        )


def test_score_that_is_no_number_is_not_comparable() -> None:
    with pytest.raises(NotComparableError, match="expected a number"):
        quality_differences(
            [scored("text", float("nan"))],
            [scored("text", 0.1)],
            design=design_of(["a"], [""]),
            seed=0,
            resamples=100,
        )


def test_sign_flip_by_hand() -> None:
    """Three changes all the same way: of 8 sign vectors 2 are as extreme."""
    assert sign_flip_p(np.array([1.0, 2.0, 0.0, 3.0]), seed=0) == 0.25
    assert sign_flip_p(np.array([1.0, -1.0]), seed=0) == 1.0


def test_sign_flip_p_is_uniform_when_nothing_changed_on_average() -> None:
    rng = np.random.default_rng(2)
    small = sum((sign_flip_p(rng.normal(0, 1, 12), seed=0) or 1) <= 0.05 for _ in range(400))
    _, low, high = share_with_interval(small, 400)
    assert low <= 0.05 <= high or small / 400 <= 0.05


def test_random_and_exact_sign_flips_agree() -> None:
    values = np.random.default_rng(4).normal(0.4, 1, 13)
    bits = (np.arange(2**13)[:, None] >> np.arange(13)) & 1
    exact = float((np.abs((1.0 - 2.0 * bits) @ values) >= abs(values.sum()) - 1e-12).mean())
    assert sign_flip_p(values, seed=0) == pytest.approx(exact, abs=0.02)


def test_composite_interval_covers_the_truth() -> None:
    """Text loses 2 points, tables gain 1, formulas nothing: the composite loses 1 / 3."""
    rng = np.random.default_rng(9)
    tasks = ["text"] * 60 + ["table"] * 30 + ["formula"] * 30
    shift = {"text": -2.0, "table": 1.0, "formula": 0.0}
    hits, trials = 0, 160
    for _ in range(trials):
        level = rng.uniform(60, 95, len(tasks))
        moved = level + rng.normal([shift[t] for t in tasks], 4.0)
        base, own = (
            [(t, v / 100 if t == "table" else 1 - v / 100) for t, v in zip(tasks, side, strict=True)]
            for side in (level.tolist(), moved.tolist())
        )
        found = differences(base, own, resamples=300)["crops_overall"]
        hits += found.low <= -1 / 3 <= found.high
    assert 0.91 <= hits / trials <= 0.99


def test_a_metric_without_a_value_on_one_side_says_why_and_what_to_do() -> None:
    base = [scored("text", 0.2)]
    own = [tuple(s.model_copy(update={"value": None, "reason": "xelatex is missing"}) for s in base[0])]
    with pytest.raises(NotComparableError) as error:
        quality_differences(base, own, design=design_of(["0"], ["text"]), seed=0, resamples=200)
    assert "text_ned is scored on one side only, not on the second because xelatex is missing" in str(
        error.value
    )
    assert "gravbench doctor" in (error.value.hint or "")
