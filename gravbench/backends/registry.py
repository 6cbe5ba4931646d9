"""Backend name -> `open_backend` of the module that implements it, imported only when it is opened.

A backend is a file and a line here, or an entry point of the group `gravbench.backends` in anybody's package.
Its own options are the parameters of its `open_backend` after the common ones, and are written as those of
an arm are: `transformers:cuda_graphs=yes`.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from gravbench.errors import UsageError
from gravbench.protocols import Backend, Servers
from gravbench.registry import Registry

BACKENDS = Registry(
    "gravbench.backends",
    {
        "openai": "gravbench.backends.openai:open_backend",
        "sglang": "gravbench.backends.sglang:open_backend",
        "toy": "gravbench.backends.toy:open_backend",
        "transformers": "gravbench.backends.transformers_local:open_backend",
    },
)
"""Each is called as `open_backend(model, *, device, dtype, threads, **its_own_options) -> Backend`.

One with a parameter `servers` is reached over HTTP, and gets `gravbench.protocols.Servers`.
"""

COMMON = ("model", "device", "dtype", "threads", "servers")


def open_backend(
    backend: str,
    *,
    model: Path | None = None,
    device: str = "cpu",
    dtype: str = "float32",
    threads: int = 1,
    servers: Servers | None = None,
) -> Backend:
    """Open `name` or `name:option=value,...` on the checkpoint folder `model` (`None`: its own)."""
    opener, options = _read(backend)
    if is_served(backend):
        options["servers"] = servers or Servers()
    elif servers is not None and servers.urls:
        raise UsageError(
            f"--url: backend '{name_of(backend)}' runs here, on no server", hint="Leave --url out."
        )
    opened: Backend = opener(model, device=device, dtype=dtype, threads=threads, **options)
    return opened


def name_of(backend: str) -> str:
    """The backend's name, without its options."""
    return backend.partition(":")[0]


def is_served(backend: str) -> bool:
    """Whether a backend is reached over HTTP; one that is not of this registry is not."""
    if name_of(backend) not in BACKENDS:
        return False
    return "servers" in inspect.signature(BACKENDS.load(name_of(backend))).parameters


def canonical_backend(backend: str) -> str:
    """The one spelling of a backend: options by name, those at their default left out. One without
    options, or one that is not of this registry, is spelled as it is."""
    if ":" not in backend or name_of(backend) not in BACKENDS:
        return backend
    opener, options = _read(backend)
    own = _own_options(opener)
    kept = {name: value for name, value in sorted(options.items()) if value != own[name].default}
    name = name_of(backend)
    written = ",".join(f"{key}={_written(value)}" for key, value in kept.items())
    return f"{name}:{written}" if written else name


def _read(backend: str) -> tuple[Callable[..., Backend], dict[str, Any]]:
    """What opens a backend, and its options as values; `UsageError` for what is unknown or badly put."""
    name, colon, tail = backend.partition(":")
    if name not in BACKENDS:
        known = sorted(BACKENDS)
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
        listed = "known: " + ", ".join(known)
        raise UsageError(
            f"unknown backend '{name}'", hint=f"did you mean '{near[0]}'? {listed}" if near else listed
        )
    opener: Callable[..., Backend] = BACKENDS.load(name)
    own = _own_options(opener)
    values: dict[str, Any] = {}
    for part in tail.split(",") if colon else ():
        key, equals, text = part.partition("=")
        if not (key and equals and text) or key in values:
            fault = "is given twice" if key in values else f"expected option=value, got '{part}'"
            raise UsageError(f"backend '{backend}': {fault}", hint=_known(name, own))
        if key not in own:
            raise UsageError(f"backend '{backend}': unknown option '{key}'", hint=_known(name, own))
        try:
            values[key] = TypeAdapter(own[key].annotation).validate_python(text)
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]["msg"]
            raise UsageError(f"backend '{backend}': {key} is '{text}': {problem}") from error
    return opener, values


def _own_options(opener: Callable[..., Backend]) -> Mapping[str, inspect.Parameter]:
    found = inspect.signature(opener, eval_str=True).parameters
    return {name: parameter for name, parameter in found.items() if name not in COMMON}


def _known(name: str, own: Mapping[str, inspect.Parameter]) -> str:
    return f"{name} has the options {', '.join(own)}." if own else f"{name} has no options."


def _written(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
