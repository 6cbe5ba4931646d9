"""`tuned`: of each task the strategy that `gravbench tune` found to pay on this machine.

`setting=FILE` is what `tune` wrote, by default `tuning.json` in the working folder. A request is decoded by
the strategy that its plan names for the request's task; all of them verify exactly. Those that weigh costs
(`adaptive`, `tree:budget=auto`) take the costs that the setting holds. A setting is made for one checkpoint:
a run with another one refuses it before any sample, and says where the machine is another.
"""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gravbench.arms import without_batch
from gravbench.decoding.options import option
from gravbench.decoding.protocols import Lane, ModelInfo, Round, StateT, Strategy
from gravbench.decoding.setting import Setting
from gravbench.decoding.strategies import parse_strategy
from gravbench.decoding.window import Needs
from gravbench.errors import UsageError
from gravbench.records import TASKS, Task

DEFAULT = "tuning.json"
HINT = "gravbench tune --out FILE writes one."


@dataclasses.dataclass(frozen=True, slots=True)
class Tuned(Strategy):
    """`setting` is read once for each state of its file."""

    setting: str = option(DEFAULT)

    def needs(self, info: ModelInfo) -> Needs:
        own = [strategy.needs(info) for strategy in _plan(self.setting).values()]
        heads = {needs.head for needs in own if needs.head is not None}
        if len(heads) > 1:
            raise UsageError(
                f"tuned: setting={self.setting}: its plan needs the heads {sorted(heads)} at once"
            )
        return Needs(
            rows_max=max(needs.rows_max for needs in own),
            taps=tuple(sorted({tap for needs in own for tap in needs.taps})),
            hidden=any(needs.hidden for needs in own),
            head=next(iter(heads), None),
            noise=any(needs.noise for needs in own),
        )

    def round(self, lane: Lane[StateT]) -> Round:
        yield from _plan(self.setting)[lane.request.task].round(lane)

    def settle(self, lane: Lane[StateT]) -> Round:
        yield from _plan(self.setting)[lane.request.task].settle(lane)


def setting_of(path: str) -> Setting:
    """The setting in a file; `UsageError` for one that is not there or is none."""
    return _held(path)[0]


def _plan(path: str) -> dict[Task, Strategy]:
    return _held(path)[1]


def _held(path: str) -> tuple[Setting, dict[Task, Strategy]]:
    try:
        return _read(path, Path(path).stat().st_mtime_ns)
    except (OSError, ValueError) as error:
        if isinstance(error, ValidationError):
            first = error.errors(include_url=False)[0]
            why = f"{'.'.join(map(str, first['loc'])) or 'document'}: {first['msg']}"
        else:
            why = str(error.strerror if isinstance(error, OSError) else error)
        raise UsageError(f"tuned: setting={path}: no setting: {why}", hint=HINT) from error


@lru_cache(maxsize=4)
def _read(path: str, changed: int) -> tuple[Setting, dict[Task, Strategy]]:  # noqa: ARG001 - another state
    setting = Setting.model_validate_json(Path(path).read_bytes())
    missing = [task for task in TASKS if task not in setting.plan]
    if missing:
        raise ValueError(f"plan names no strategy for {', '.join(missing)}")
    return setting, {task: _strategy(arm, path) for task, arm in setting.plan.items()}


def _strategy(arm: str, path: str) -> Strategy:
    """The strategy of a plan, with the costs of its setting; `ValueError` for one that no plan may name."""
    strategy: Any = parse_strategy(arm)
    if strategy.lossy or isinstance(strategy, Tuned) or arm != without_batch(arm):
        raise ValueError(f"plan names {arm}: lossy, tuned itself, or with a batch size")
    if getattr(strategy, "texts", None) is not None:
        raise ValueError(f"plan names {arm}: its texts are those of one suite")
    if getattr(strategy, "costs", "") is None:
        return dataclasses.replace(strategy, costs=path)  # type: ignore[no-any-return]
    return strategy  # type: ignore[no-any-return]
