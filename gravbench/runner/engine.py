"""From `--backend` and `--model` to an open backend, and from `--strategy` to the arms that it shall run."""

from __future__ import annotations

import difflib
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from gravbench.arms import batch_of, canonical, with_batch
from gravbench.errors import EngineError, UsageError
from gravbench.options import DEFAULT_MODEL, DEFAULT_STRATEGIES, RunOptions
from gravbench.protocols import Backend, BackendInfo, Servers
from gravbench.resources import shipped_model_dir
from gravbench.store.schema import sha256_text

if TYPE_CHECKING:
    from gravbench.decoding.setting import Machine
    from gravbench.suites.manifest import Suite


def open_engine(options: RunOptions, suite: Suite) -> Backend:  # noqa: ARG001 - prompts travel with requests
    """Open the backend of `options`, loading its module (and torch) only now."""
    from gravbench.backends.registry import is_served, name_of, open_backend

    if is_served(options.backend):
        key = os.environ.get(KEY_VARIABLE)
        servers = Servers(urls=options.url, model=options.model, key=key)
        named = name_of(options.backend) == "openai"  # a name that its servers list, and no checkpoint here
        return open_backend(
            options.backend,
            model=None if named else checkpoint_of(options.model),
            device=options.device,
            dtype=options.dtype,
            threads=options.threads,
            servers=servers,
        )
    return open_backend(
        options.backend,
        model=checkpoint_of(options.model, backend=name_of(options.backend)),
        device=options.device,
        dtype=options.dtype,
        threads=options.threads,
        servers=Servers(urls=options.url),
    )


KEY_VARIABLE = "GRAVBENCH_API_KEY"
"""Where the key of servers comes from: no option, since options are recorded."""


def checkpoint_of(model: str | None, *, backend: str = "transformers") -> Path | None:
    """Folder of `model`: the shipped one by name, else a path or a hub id.

    The toy backend has a table of its own.
    """
    if model is None and backend == "toy":
        return None
    name = model or DEFAULT_MODEL
    if name == DEFAULT_MODEL:
        return shipped_model_dir(name)
    from gravbench.backends.hub import resolve_model

    folder = resolve_model(name)
    if not folder.exists() and difflib.get_close_matches(name, [DEFAULT_MODEL], cutoff=0.7):
        raise EngineError(
            f"{name}: no such checkpoint folder", hint=f"did you mean '{DEFAULT_MODEL}'? Or pass --model DIR."
        )
    return folder


def as_arms(options: RunOptions) -> RunOptions:
    """The options with their strategies as the arms of a run: checked, with their batch size."""
    arms = check_strategies(options.strategies, batch_size=options.batch_size)
    if options.concurrency:
        from gravbench.backends.registry import is_served

        if options.batch_size > 1 or not is_served(options.backend):
            raise UsageError(
                f"--concurrency: for a backend over HTTP, without --batch-size; this is {options.backend}",
                hint="A backend that runs here decodes together what --batch-size says.",
            )
        sizes = dict.fromkeys(map(int, options.concurrency.split(",")))
        arms = check_strategies([with_batch(arm, size) for size in sizes for arm in arms])
    return options.but(strategies=arms, batch_size=1, concurrency="")


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


def supplied_files(arms: Sequence[str]) -> dict[str, str] | None:
    """By arm, digest of the files it decodes by: texts, a cost table, a setting. `None` without any."""
    from gravbench.decoding.strategies import parse_strategy
    from gravbench.decoding.texts import texts_digest

    found: dict[str, str] = {}
    for arm in arms:
        strategy = parse_strategy(arm)
        paths = [getattr(strategy, name, None) for name in ("texts", "costs", "setting")]
        digests = [texts_digest(path, arm) for path in paths if path is not None]
        if digests:
            found[arm] = digests[0] if len(digests) == 1 else sha256_text("".join(digests))
    return found or None


def check_texts(arms: Sequence[str], sample_ids: Collection[str], suite: Collection[str]) -> tuple[str, ...]:
    """A caution for each arm whose texts lack some samples; `UsageError` where they lack all of `suite`,
    of which these samples are some."""
    from gravbench.decoding.strategies import parse_strategy
    from gravbench.decoding.texts import named_in

    found: list[str] = []
    for arm in arms:
        path = getattr(parse_strategy(arm), "texts", None)
        if path is None:
            continue
        named = named_in(path, arm)
        if named.isdisjoint(suite):
            raise UsageError(
                f"strategy '{arm}': {path} has no text of any of the {len(suite)} samples, such as "
                f"'{min(suite)}'",
                hint="Texts go by sample_id: name a run of the same suite, or rename the lines of the file.",
            )
        if lacking := sorted(set(sample_ids) - named):
            found.append(
                f"{arm}: no text of {len(lacking)} of {len(sample_ids)} samples, such as {lacking[0]}"
            )
    return tuple(found)


def check_settings(
    arms: Sequence[str], info: BackendInfo, environment: Mapping[str, JsonValue]
) -> tuple[str, ...]:
    """A caution for each thing that differs from where the settings of `tuned` arms were measured.

    `UsageError` for a setting of another checkpoint.
    """
    from gravbench.decoding.strategies import parse_strategy
    from gravbench.decoding.tuned import Tuned, setting_of

    found: list[str] = []
    for arm in arms:
        strategy = parse_strategy(arm)
        if isinstance(strategy, Tuned):
            setting = setting_of(strategy.setting)
            if setting.model_digest != info.model_digest:
                raise UsageError(
                    f"strategy '{arm}': {strategy.setting} was tuned for {setting.model} (digest "
                    f"{setting.model_digest[:12]}), this is {info.model} ({info.model_digest[:12]})",
                    hint="gravbench tune --model MODEL writes a setting for this checkpoint.",
                )
            here = machine_of(info, environment, backend=setting.machine.backend)
            other = [
                f"{name} {getattr(setting.machine, name)}, here {getattr(here, name)}"
                for name in type(here).model_fields
                if getattr(here, name) != getattr(setting.machine, name)
            ]
            if batch_of(arm) != setting.batch:
                other.append(f"batch size {setting.batch}, here {batch_of(arm)}")
            if other:
                found.append(f"{arm}: tuned elsewhere, it may not be the fastest here: {'; '.join(other)}")
    return tuple(found)


def machine_of(info: BackendInfo, environment: Mapping[str, JsonValue], *, backend: str) -> Machine:
    """The machine of this process, as a setting names it; `environment` is what was captured of it."""
    from gravbench.decoding.setting import Machine

    cpu, host = environment.get("cpu"), environment.get("host_sha")
    return Machine(
        backend=backend,
        engine=info.engine,
        device=info.device,
        dtype=info.dtype,
        threads=info.threads,
        cpu=str(cpu["model"]) if isinstance(cpu, dict) and cpu.get("model") else None,
        host_sha=str(host) if host else None,
    )


def _check_spelling(strategy: str) -> None:
    if strategy != canonical(strategy):
        raise UsageError(
            f"strategy '{strategy}': another spelling of '{canonical(strategy)}'",
            hint=f"Write {canonical(strategy)} (options by name, batch last, no leading zeros, no batch=1).",
        )
