"""What a reader must know because of a run's arms: speedups without a partner, times that are shares."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from gravbench.analysis.shared_forwards import shared_groups
from gravbench.arms import ar_arms, batch_of, is_ar, speed_base
from gravbench.store.schema import GenRecord


def speed_notes(arms: Collection[str]) -> tuple[str, ...]:
    """One for each strategy without an `ar` arm of its batch size; empty where no `ar` arm was run at all."""
    if not ar_arms(arms):
        return ()
    return tuple(
        f"{arm}: no ar arm at batch size {batch_of(arm)}: speedups were not measured"
        for arm in arms
        if not is_ar(arm) and speed_base(arm, arms) is None
    )


def share_notes(records_by_arm: Sequence[Sequence[GenRecord]]) -> tuple[str, ...]:
    """One note where crops decoded together: their times are shares of shared forwards."""
    shared = [records[0].arm for records in records_by_arm if shared_groups(records) is not None]
    if not shared:
        return ()
    return (
        f"{', '.join(shared)}: crops that decode together share the time of each forward equally, so the "
        "time of a single crop is a share, not a latency. Medians, P10, P90 and outliers of pairs, and "
        "speedups by task, length and category or of identical outputs alone, are of such shares; the sum "
        "over the run is time.",
    )
