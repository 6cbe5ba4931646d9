"""What a run was asked to do, checked before anything is loaded."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from gravbench.arms import batch_of, canonical, with_batch
from gravbench.errors import UsageError

DEFAULT_STRATEGIES = ("ar", "selfspec")
DEFAULT_MODEL = "gravity-tiny"
CUDA_GRAPHS = ", CUDA graphs"
"""How an engine that replays recorded forwards ends its name."""
MAX_SEED = 2**32 - 1


@dataclass(frozen=True, kw_only=True)
class ErrorLimit:
    """How many samples may fail before the run counts as incomplete: a share of all, or a number."""

    share: float | None = None
    count: int | None = None

    def exceeded(self, failed: int, total: int) -> bool:
        """Whether `failed` of `total` samples is more than allowed."""
        allowed = self.count if self.count is not None else (self.share or 0.0) * total
        return failed > allowed

    def __str__(self) -> str:
        """As --max-errors takes it."""
        return str(self.count) if self.count is not None else f"{100 * (self.share or 0.0):g}%"


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """One `gravbench run`, defaults filled in."""

    suite: str
    strategies: tuple[str, ...] = DEFAULT_STRATEGIES
    model: str | None = None
    backend: str = "transformers"
    device: str = "cpu"
    dtype: str = "float32"
    cuda_graphs: bool = False
    out: Path | None = None
    runs_root: Path = Path("runs")
    limit: int | None = None
    stratify: str | None = None
    pages: str | None = None
    data: Path | None = None
    allow_drift: tuple[str, ...] = ()
    layout: str = "ground-truth"
    layout_model: str | None = None
    in_flight: int = 1
    seed: int = 0
    threads: int = 1
    max_errors: ErrorLimit = ErrorLimit(share=0.01)
    fresh: bool = False
    argv: tuple[str, ...] = ()


def selection_fields(options: RunOptions) -> dict[str, JsonValue]:
    """Which samples were asked for, as far as `limit` and `seed` do not say it; empty for a plain run."""
    asked: dict[str, JsonValue] = {"pages": options.pages, "stratify": options.stratify}
    return {name: value for name, value in asked.items() if value is not None}


def options_of(identity: Mapping[str, JsonValue], strategies: tuple[str, ...]) -> RunOptions:
    """The options that a run of this identity was asked with, but for checkpoints and folders."""
    layout, limit = identity.get("layout"), identity.get("limit")
    seed, threads, in_flight = identity["seed"], identity["threads"], identity.get("in_flight", 1)
    pages, stratify = identity.get("pages"), identity.get("stratify")
    assert isinstance(seed, int)
    assert isinstance(threads, int)
    assert isinstance(in_flight, int)
    return RunOptions(
        suite=str(identity["suite"]),
        strategies=strategies,
        backend=str(identity["backend"]),
        device=str(identity["device"]),
        dtype=str(identity["dtype"]),
        cuda_graphs=str(identity.get("engine")).endswith(CUDA_GRAPHS),
        limit=limit if isinstance(limit, int) else None,
        pages=pages if isinstance(pages, str) else None,
        stratify=stratify if isinstance(stratify, str) else None,
        layout=str(layout["name"]) if isinstance(layout, dict) else "ground-truth",
        in_flight=in_flight,
        seed=seed,
        threads=threads,
    )


def parse_error_limit(text: str) -> ErrorLimit:
    """`1%` or `0.01` (a share of the samples) or `3` (a number of samples)."""
    if match := re.fullmatch(r"(\d+(?:\.\d+)?)%", text.strip()):
        share = float(match[1]) / 100
    elif re.fullmatch(r"\d+", text.strip()):
        return ErrorLimit(count=int(text))
    elif re.fullmatch(r"\d*\.\d+", text.strip()):
        share = float(text)
    else:
        raise UsageError(
            f"--max-errors: '{text}' is neither a share nor a number", hint="For example 1% or 3."
        )
    if share > 1:
        raise UsageError(f"--max-errors: '{text}' is more than all samples", hint="At most 100%.")
    return ErrorLimit(share=share)


def check_strategies(strategies: Sequence[str], *, batch_size: int = 1) -> tuple[str, ...]:
    """Strategies as given, or the defaults, at `batch_size` where they name none.

    `UsageError` when one is unknown, badly put, not spelled canonically, or the same as another: what is
    written here is the arm's name in every file, and only equal names meet.
    """
    from gravbench.decoding.strategies import parse_strategy

    chosen: list[str] = []
    meanings: dict[object, str] = {}
    for strategy in tuple(strategies) or DEFAULT_STRATEGIES:
        decoding = parse_strategy(strategy)
        _check_spelling(strategy)
        arm = with_batch(strategy, batch_size)
        if arm in chosen:
            raise UsageError(f"strategy '{arm}' is given twice", hint="Name each strategy once.")
        same = meanings.setdefault((decoding, batch_of(arm)), arm)
        if same != arm:
            raise UsageError(f"strategy '{arm}' is the same as '{same}'", hint="Name each strategy once.")
        chosen.append(arm)
    return tuple(chosen)


def _check_spelling(strategy: str) -> None:
    if strategy != canonical(strategy):
        raise UsageError(
            f"strategy '{strategy}': another spelling of '{canonical(strategy)}'",
            hint=f"Write {canonical(strategy)} (options by name, batch last, no leading zeros, no batch=1).",
        )
