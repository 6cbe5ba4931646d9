"""`edit` reads its draft again before it is verified."""

from types import SimpleNamespace
from typing import Any

import torch
from strategy_support import LONG, on_toy

from gravbench.decoding.edit import Edit, _count
from gravbench.decoding.rows import Reply, Rows
from gravbench.decoding.tracing import TraceRecorder


def test_one_pass_is_selfspec() -> None:
    for wrong in ((), (2,), (1, 3)):
        _, plain, as_plain = on_toy(LONG, "selfspec:block=5", budget=60, wrong_slots=wrong)
        _, edit, as_edit = on_toy(LONG, "edit:block=5,passes=1", budget=60, wrong_slots=wrong)
        assert (as_edit.committed, as_edit.accepted) == (as_plain.committed, as_plain.accepted)
        assert edit.counters.decode_forwards == plain.counters.decode_forwards
        assert edit.counters.own["edit_passes"] == 0


def test_every_pass_commits_one_exact_token() -> None:
    _, trace, rounds = on_toy(LONG, "edit:block=4,passes=3", budget=61, wrong_slots=(4,))
    full = [seeds for seeds, offered in zip(rounds.seeds, rounds.offered, strict=True) if offered]
    assert set(full) == {3} and max(rounds.extra) == 4
    assert trace.counters.fwd_draft == sum(rounds.seeds)


def test_a_draft_that_a_pass_leaves_as_it_was_is_verified_at_once() -> None:
    _, trace, rounds = on_toy(LONG, "edit:block=4,passes=8", budget=61)
    assert set(rounds.committed[:-1]) == {2 + 4 + 1} and set(rounds.seeds[:-1]) == {2}
    assert trace.counters.own["edit_settled"] >= rounds.count - 1


def test_edits_are_held_against_what_was_committed() -> None:
    """Pass 1 drafts slots 1 to 3 behind token 10, pass 2 slots 2 to 4: it mends one slot and spoils one."""
    trace = TraceRecorder(lambda: 0)
    lane: Any = SimpleNamespace(trace=trace)
    right = [10, 11, 12, 13, 14]
    _count(lane, [[11, 99, 13], [12, 98, 14]], right)
    own = trace._own
    assert own["accept_if_stopped_at_1"] == 1 and own["accept_if_stopped_at_2"] == 1
    assert (own["edits_helpful"], own["edits_harmful"], own["edits_neutral"]) == (1, 1, 0)


def rows_of(*chances: float) -> Rows:
    """A boundary row, then draft rows whose likeliest of three tokens has these chances."""
    table = [[1.0, 0, 0], *([chance, 1 - chance, 0.0] for chance in chances)]
    logits = torch.tensor(table).log()
    return Rows(Reply(logits=logits, widths=[len(table)], starts=[0], wanted=[None], firsts=[0]))


def test_auto_edits_an_error_that_stands_alone_and_nothing_else() -> None:
    edit = Edit(passes="auto", below=2.0, sure=0.8)
    assert edit._pays(rows_of(0.95, 0.6, 0.95, 0.95, 0.5), 5) is False  # enough is likely to stand
    assert edit._pays(rows_of(0.6, 0.95, 0.95), 3) is True
    assert edit._pays(rows_of(0.6, 0.55, 0.55), 3) is False  # unsure throughout
    assert edit._pays(rows_of(0.95, 0.95, 0.6), 3) is False  # nothing behind the doubtful one
