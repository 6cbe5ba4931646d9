"""Which samples shared forwards: their times are shares of one measurement and are drawn together.

Crops of one batch were submitted at one moment of one session. A page is a batch of its own regions and
shares with no other sample.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gravbench.analysis.bootstrap import Design, Ints, design_of
from gravbench.arms import batch_of
from gravbench.store.schema import GenRecord


def shared_groups(records: Sequence[GenRecord]) -> Ints | None:
    """Group number of each record of one arm; `None` when every sample decoded alone."""
    if not any(record.task != "page" and batch_of(record.arm) > 1 for record in records):
        return None
    moments: dict[tuple[str, int], int] = {}
    return np.array(
        [moments.setdefault((r.session_id, r.submit_ns), len(moments)) for r in records], dtype=np.int64
    )


def time_design(design: Design, records: Sequence[GenRecord]) -> Design:
    """Design for times of `records` (one a row): rows that shared forwards are one cluster.

    Such clusters are drawn from the whole suite and take the place of pages and strata, which they cross.
    """
    groups = shared_groups(records)
    if groups is None:
        return design
    return design_of([str(group) for group in groups], [""] * len(records))
