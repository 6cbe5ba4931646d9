"""One writer per run folder. The operating system drops the lock with its process, so none goes stale;
`lock.json` says who holds it, for the message to the second comer."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path
from types import TracebackType

import orjson
from filelock import FileLock, Timeout

from gravbench.errors import UsageError
from gravbench.store.files import disk_error, write_atomic
from gravbench.store.schema import canonical_json

GRACE_S = 1.0
"""How long to wait for a holder that is just ending: a killed process can leave a dying child behind."""

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class RunLock:
    """Context manager around `.lock`; raises `UsageError` (exit 2) when another live process holds it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = FileLock(folder / ".lock")
        self._owner_file = folder / "lock.json"
        self.left_over: dict[str, object] | None = None
        """Owner named by a process that died without letting go; `None` after a clean exit."""

    def __enter__(self) -> RunLock:
        try:
            self._lock.acquire(timeout=GRACE_S, poll_interval=0.02)
        except Timeout:
            owner = _read_owner(self._owner_file) or {}
            raise UsageError(
                f"{self._folder}: another run is writing here "
                f"(process {owner.get('pid', 'unknown')} on {owner.get('host', 'unknown host')})",
                hint="Wait until it ends, or give this run its own folder with --out.",
            ) from None
        except OSError as error:
            raise disk_error(error, self._folder / ".lock") from error
        self.left_over = _read_owner(self._owner_file)
        try:
            write_atomic(self._owner_file, canonical_json(_myself()))
        except BaseException:
            self._lock.release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self._owner_file.unlink()
        self._lock.release()


def _myself() -> dict[str, object]:
    boot_id = _BOOT_ID.read_text(encoding="ascii").strip() if _BOOT_ID.is_file() else None
    return {"host": socket.gethostname(), "pid": os.getpid(), "boot_id": boot_id}


def _read_owner(path: Path) -> dict[str, object] | None:
    try:
        owner = orjson.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return owner if isinstance(owner, dict) else None
