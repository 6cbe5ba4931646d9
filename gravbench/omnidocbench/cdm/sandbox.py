"""Runs TeX and Ghostscript on strangers' formulas: own folder, own process group, hard limits.

Every limit is a resource limit of the kernel (set by a shell before the program starts, so it is safe with
threads) plus one wall-clock limit against a process that sleeps.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_SHELL = "/bin/sh"
_SCRIPT = (
    'ulimit -c 0 && ulimit -S -t "$1" && ulimit -H -t "$(($1 + 1))" && ulimit -f "$2" && ulimit -v "$3" '
    '&& shift 3 && exec "$@"'
)
_BLOCK = 512
"""Unit of `ulimit -f` in a POSIX shell."""


@dataclass(frozen=True)
class Limits:
    """What one formula, or one batch of them, may use."""

    solo_cpu_s: int = 15
    batch_cpu_s: int = 4
    batch_cpu_s_per_formula: float = 0.05
    file_bytes: int = 64 * 1024 * 1024
    """Largest file a tool may write."""
    memory_kbytes: int = 600_000
    """Address space; pdflatex needs about 150 MB, Ghostscript up to 250 MB for a full A1 page."""
    raster_cpu_s: int = 60
    raster_file_bytes: int = 64 * 1024 * 1024
    wall_factor: float = 8.0
    """Wall-clock limit as a multiple of the CPU limit, plus ten seconds: only for processes that sleep."""
    batch_size: int = 200

    def batch_cpu(self, formulas: int) -> int:
        return self.batch_cpu_s + int(self.batch_cpu_s_per_formula * formulas) + 1


@dataclass(frozen=True)
class Finished:
    """How a program ended. `stopped` names the limit that ended it; `None` when it ended by itself."""

    returncode: int
    stopped: str | None
    stdout: Path
    stderr: Path

    def output(self, limit: int = 4_000_000) -> str:
        return _read(self.stdout, limit)

    def errors(self, limit: int = 4_000_000) -> str:
        return _read(self.stderr, limit)


def run_limited(
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    cpu_s: int,
    file_bytes: int,
    memory_kbytes: int,
    wall_s: float,
    name: str,
) -> Finished:
    """Run `command` in `cwd` with closed stdin; its output goes to `<name>.out` and `<name>.err` there.

    The output files count against the file limit like any other.
    """
    blocks = max(1, file_bytes // _BLOCK)
    argv = [_SHELL, "-c", _SCRIPT, "sh", str(cpu_s), str(blocks), str(memory_kbytes), *command]
    out, err = cwd / f"{name}.out", cwd / f"{name}.err"
    with out.open("wb") as stdout, err.open("wb") as stderr:
        process = subprocess.Popen(
            argv,
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
        try:
            code = process.wait(timeout=wall_s)
            stopped = _stopped_by(code)
        except subprocess.TimeoutExpired:
            stopped = f"wall-clock limit of {wall_s:.0f} s"
            code = -signal.SIGKILL
        finally:
            _kill_group(process)
    return Finished(code, stopped, out, err)


def _stopped_by(code: int) -> str | None:
    """Name of the limit or signal behind an exit status."""
    number = -code if code < 0 else code - 128 if code > 128 else 0
    if number == 0:
        return None
    names: dict[int, str] = {
        signal.SIGXCPU: "CPU limit",
        signal.SIGXFSZ: "file size limit",
        signal.SIGKILL: "killed",
    }
    return names.get(number, f"signal {number}")


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """End whatever is left of the process group, and collect the process."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _read(path: Path, limit: int) -> str:
    with path.open("rb") as stream:
        return stream.read(limit).decode("utf-8", "replace")


def wipe(folder: Path) -> None:
    """Remove a scratch folder, whatever a formula left in it."""
    shutil.rmtree(folder, ignore_errors=True)
