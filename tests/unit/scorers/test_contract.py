"""A metric's row says everything that is known of it; points put all of them on one scale."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravbench.errors import UsageError
from gravbench.scorers.contract import Metric, metric_table, open_scorer
from gravbench.suites.manifest import list_suites

TABLE = metric_table()
ROW = {
    "name": "m",
    "label": "m",
    "direction": "higher",
    "definition": "d",
    "signature": "s",
    "tasks": ("text",),
}


@given(st.sampled_from(sorted(TABLE)), st.floats(0, 1), st.floats(0, 1))
def test_more_points_are_always_better_and_the_worst_has_none(name: str, a: float, b: float) -> None:
    metric = TABLE[name]
    low, high = metric.range
    x, y = (low + share * (high - low) for share in (a, b))
    best = high if metric.higher_is_better else low
    assert (metric.points(metric.worst), metric.points(best)) == (0, 100)
    if x < y:
        assert (metric.points(x) <= metric.points(y)) is metric.higher_is_better or metric.points(
            x
        ) == metric.points(y)


def test_every_row_explains_itself_and_every_part_of_a_composite_is_a_row() -> None:
    for metric in TABLE.values():
        assert metric.definition.endswith(".") and metric.signature
        assert all(part in TABLE for part in metric.parts)
        assert metric.heading.endswith(("(low)", "(high)")) or metric.unit == "points"


def test_every_shipped_suite_names_a_scorer_with_metrics_for_its_samples() -> None:
    for suite in list_suites():
        tasks = {task for name in suite.scorers for m in open_scorer(name).metrics for task in m.tasks}
        assert (suite.kind != "crops" or set(suite.tasks) <= tasks) and (
            suite.kind != "pages" or "page" in tasks
        )


def test_an_unknown_scorer_suggests_the_nearest() -> None:
    with pytest.raises(UsageError, match="unknown scorer 'crop'") as caught:
        open_scorer("crop")
    assert caught.value.hint == "did you mean crops?"


@pytest.mark.parametrize(
    "wrong",
    [{"range": (1.0, 0.0)}, {"parts": ("a", "b")}, {"parts": ("a",), "parts_needed": 2}, {"label": ""}],
)
def test_a_row_that_contradicts_itself_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="metric"):
        Metric(**{**ROW, **wrong})  # type: ignore[arg-type]
    assert Metric(**ROW).worst == 0.0  # type: ignore[arg-type]
