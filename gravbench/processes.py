"""Parts of one work in processes side by side; what comes out does not depend on their number."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

Part = TypeVar("Part")
Result = TypeVar("Result")


def usable_cpus() -> int:
    """CPUs that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def side_by_side(
    work: Callable[[Part], Result],
    parts: Sequence[Part],
    *,
    jobs: int,
    done: Callable[[Part], None] | None = None,
) -> list[Result]:
    """`work` of every part, in the order of the parts, in `jobs` processes; one job is this process itself.

    `done` hears of each part in the order in which they end. What a part raises is raised here, and parts
    that have not begun are dropped. Work, parts and results are pickled where a process cannot be forked.
    """
    if jobs <= 1:
        results = []
        for part in parts:
            results.append(work(part))
            if done is not None:
                done(part)
        return results
    from concurrent.futures import ProcessPoolExecutor, as_completed  # a few parts need neither
    from multiprocessing import get_context

    context = get_context(_start_method())
    with ProcessPoolExecutor(jobs, context, initializer=_begin, initargs=(work,)) as pool:
        running = {pool.submit(_do, part): number for number, part in enumerate(parts)}
        try:
            for future in as_completed(running):
                future.result()
                if done is not None:
                    done(parts[running[future]])
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return [future.result() for future in running]


_works: list[Callable[[Any], Any]] = []
"""In a worker process: its work. Empty everywhere else."""


def _begin(work: Callable[[Any], Any]) -> None:
    _works.append(work)  # as an initializer itself it would be pickled with a copy of the list


def _do(part: Any) -> Any:
    return _works[0](part)


def _start_method() -> str:
    """A fork shares pages and modules, but only a process without further threads may be forked safely."""
    return "fork" if sys.platform == "linux" and threading.active_count() == 1 else "spawn"
