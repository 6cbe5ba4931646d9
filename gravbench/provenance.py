"""Where and with what a run was made: recorded, never read back as configuration."""

from __future__ import annotations

import hashlib
import hmac
import importlib.metadata
import os
import platform
import socket
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from pydantic import JsonValue

from gravbench.resources import __version__

LOCATING_VARIABLES = ("GRAVBENCH_DATA", "HF_HOME")
"""They say where data lies. They never change a result; they are recorded."""

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Recorded. The first bounds the default of --threads, which overrules them all."""

MAIN_PACKAGES = (
    "torch",
    "transformers",
    "tokenizers",
    "safetensors",
    "numpy",
    "scipy",
    "pydantic",
    "rapidfuzz",
)

_CPU_FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_bf16", "fma", "f16c")
_GIT_TIMEOUT_S = 5
_MACHINE_IDS = (
    Path("/etc/machine-id"),
    Path("/var/lib/dbus/machine-id"),
    Path("/proc/sys/kernel/random/boot_id"),
)
_ID_CHARACTERS = 32
"""Shorter ones are no ids: `uninitialized`, or an empty file in an image."""


def capture(environ: Mapping[str, str]) -> dict[str, JsonValue]:
    """Code version, packages, machine, allow-listed environment variables. No secrets, no host name."""
    return {
        "gravbench": __version__,
        "git": git_state(Path(__file__).resolve().parent),
        "python": sys.version.split()[0],
        "packages": dict(sorted(all_packages().items())),
        "os": platform.platform(),
        "cpu": cpu(),
        "host_sha": host_sha(_machine_id(), socket.gethostname()),
        "variables": {
            name: environ[name] for name in (*LOCATING_VARIABLES, *THREAD_VARIABLES) if name in environ
        },
    }


def host_sha(machine_id: str | None, hostname: str) -> str | None:
    """Equal for two runs of one machine, and no guess at a host name finds it: the machine's id is the key.

    `None` where the machine has no id: a bare name could be looked up.
    """
    if machine_id is None:
        return None
    keyed = hmac.new(machine_id.encode("utf-8"), b"gravbench\0" + hostname.encode("utf-8"), hashlib.sha256)
    return keyed.hexdigest()[:16]


def _machine_id() -> str | None:
    """The installation's id, else the id of this boot."""
    for path in _MACHINE_IDS:
        try:
            found = path.read_text(encoding="ascii", errors="replace").strip()
        except OSError:
            continue
        if len(found) >= _ID_CHARACTERS:
            return found
    return None


def package_version(name: str) -> str | None:
    """Installed version of a distribution; `None` when absent. Imports nothing."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def all_packages() -> dict[str, JsonValue]:
    """Every installed distribution and its version."""
    found: dict[str, JsonValue] = {}
    for distribution in importlib.metadata.distributions():
        name = distribution.metadata["Name"]
        if name:
            found[name] = distribution.version
    return found


def usable_cores(environment: Mapping[str, str] = os.environ) -> int:
    """How many cores this process may use: those it may run on, at most OMP_NUM_THREADS where that is set.

    The default number of model threads, the same for every arm. It decides how fast a run is, never what it
    says.
    """
    affinity = getattr(os, "sched_getaffinity", None)  # not on every system
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    stated = environment.get("OMP_NUM_THREADS", "")
    return min(cores, int(stated)) if stated.isdecimal() and int(stated) > 0 else cores


class ResidentMemory:
    """The most memory of this process that was resident at once, from `begin` on. Only Linux tells it.

    The kernel keeps one mark for the process (VmHWM), which 5 written to `clear_refs` sets back.
    """

    MEANING = "resident memory of the whole process"

    def __init__(self, proc: Path = Path("/proc/self")) -> None:
        self._reset, self._status = proc / "clear_refs", proc / "status"
        self.missing: str | None = None
        """Why nothing is measured."""
        self.begin()
        if self.missing is None and self.peak_bytes() is None:
            self.missing = f"{self._status} has no VmHWM"

    @property
    def described(self) -> str:
        """What is measured, or why nothing is."""
        return self.MEANING if self.missing is None else f"not measured: {self.missing}"

    def begin(self) -> None:
        if self.missing is None:
            try:
                with os.fdopen(os.open(self._reset, os.O_WRONLY), "wb") as file:  # never made where it is not
                    file.write(b"5")
            except OSError as error:
                self.missing = f"{self._reset}: {error.strerror}"

    def peak_bytes(self) -> int | None:
        """Bytes since `begin`, whole pages; `None` where that is not known."""
        if self.missing is not None:
            return None
        for line in self._status.read_bytes().splitlines():
            if line.startswith(b"VmHWM:"):
                return int(line.split()[1]) * 1024
        return None


def cpu() -> dict[str, JsonValue]:
    """Model name, logical cores and the vector extensions that decide matrix speed (Linux; else `None`)."""
    model: str | None = None
    flags: set[str] = set()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name" and model is None:
                model = value.strip()
            elif key.strip() == "flags":
                flags.update(value.split())
    return {
        "model": model or platform.processor() or None,
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "flags": [flag for flag in _CPU_FLAGS if flag in flags],
    }


def git_state(folder: Path) -> dict[str, JsonValue] | None:
    """Commit, its date and dirty-diff hash of the checkout the package runs from; `None` where installed."""
    if not (folder.parent / ".git").exists():
        return None
    commit = _git(folder, "rev-parse", "HEAD")
    dated = _git(folder, "rev-list", "--max-count=1", "--timestamp", "HEAD")
    difference = _git(folder, "diff", "HEAD")
    if commit is None or dated is None or difference is None:
        return None
    dirty = hashlib.sha256(difference.encode("utf-8")).hexdigest()[:16] if difference else None
    committed = datetime.fromtimestamp(int(dated.split()[0]), UTC).isoformat(timespec="seconds")
    return {"commit": commit.strip(), "committed_utc": committed, "dirty_diff_sha": dirty}


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            check=True,
            timeout=_GIT_TIMEOUT_S,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode("utf-8", errors="replace")
