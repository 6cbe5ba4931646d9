"""Strategies as a run's arms, checked before anything is loaded."""

from __future__ import annotations

from collections.abc import Sequence

from gravbench.arms import batch_of, canonical, with_batch
from gravbench.errors import UsageError
from gravbench.options import DEFAULT_STRATEGIES, RunOptions


def as_arms(options: RunOptions) -> RunOptions:
    """The options with their strategies as the arms of a run: checked, with their batch size."""
    arms = check_strategies(options.strategies, batch_size=options.batch_size)
    return options.but(strategies=arms, batch_size=1)


def check_strategies(strategies: Sequence[str], *, batch_size: int = 1) -> tuple[str, ...]:
    """Strategies as given, or the defaults, at `batch_size` where they name none.

    `UsageError` when one is unknown, badly put, not spelled canonically, or the same as another: what is
    written here is the arm's name in every file, and only equal names meet.
    """
    from gravbench.decoding.strategies import parse_strategy
    from gravbench.decoding.temperature import temperature_of

    chosen: list[str] = []
    meanings: dict[object, str] = {}
    for strategy in tuple(strategies) or DEFAULT_STRATEGIES:
        decoding = parse_strategy(strategy)
        _check_spelling(strategy)
        arm = with_batch(strategy, batch_size)
        if arm in chosen:
            raise UsageError(f"strategy '{arm}' is given twice", hint="Name each strategy once.")
        same = meanings.setdefault((decoding, temperature_of(arm), batch_of(arm)), arm)
        if same != arm:
            raise UsageError(f"strategy '{arm}' is the same as '{same}'", hint="Name each strategy once.")
        chosen.append(arm)
    return tuple(chosen)


def lossy_arms(arms: Sequence[str]) -> tuple[str, ...]:
    """Arms whose tokens may differ from those of `ar` by design."""
    from gravbench.decoding.strategies import parse_strategy

    return tuple(arm for arm in arms if getattr(parse_strategy(arm), "lossy", False))


def _check_spelling(strategy: str) -> None:
    if strategy != canonical(strategy):
        raise UsageError(
            f"strategy '{strategy}': another spelling of '{canonical(strategy)}'",
            hint=f"Write {canonical(strategy)} (options by name, batch last, no leading zeros, no batch=1).",
        )
