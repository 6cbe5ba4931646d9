"""Durable file primitives: append one line, replace one file, read lines back past a torn tail.

A write that the disk refuses raises `EngineError` (exit 4) and leaves what was written before intact.
A run folder has one writer. The operating system drops its lock with the process, so none goes stale;
`lock.json` says who holds it, for the message to the second comer.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import socket
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import orjson
from pydantic import ValidationError

from gravbench.errors import DataError, EngineError, GravbenchError, UsageError
from gravbench.records import Record
from gravbench.store.schema import canonical_json

R = TypeVar("R", bound=Record)

SHOWN_CHARACTERS = 80
DAMAGED = "The file was changed by hand or damaged; start again with --fresh."

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_REFUSED = {
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENOENT,
    errno.EEXIST,
    errno.ENAMETOOLONG,
    errno.EINVAL,
    errno.ELOOP,
}


def disk_error(error: OSError, path: Path, *, option: str = "--out") -> GravbenchError:
    """The error a user should see when writing `path` failed: full disk (4), not writable (2), other (4).

    `option` is what named the place.
    """
    reason = error.strerror or str(error)
    if error.errno in _FULL:
        return EngineError(
            f"{path}: {reason} while writing; everything written before is kept",
            hint="Free some space, then repeat the same command: it continues where it stopped.",
        )
    if error.errno in _REFUSED:
        return UsageError(f"{path}: not writable ({reason})", hint=_elsewhere(option))
    return EngineError(f"{path}: {reason} while writing", hint="Repeat the same command to continue.")


def make_folder(path: Path, *, option: str = "--out") -> None:
    """Create `path` and its parents; refusals become `UsageError`."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        refuse_file(path, option=option)
        raise disk_error(error, path, option=option) from error


def refuse_file(path: Path, *, option: str = "--out") -> None:
    """`UsageError` when `path`, or a folder it would lie in, is something else than a folder."""
    for place in (path, *path.parents):
        try:
            in_the_way = place.exists() and not place.is_dir()
        except OSError as error:
            raise disk_error(error, path, option=option) from error
        if in_the_way:
            within = "" if place == path else f", so {path} cannot be made"
            raise UsageError(f"{place}: is a file, expected a folder{within}", hint=_elsewhere(option))


def read_bytes(path: Path) -> bytes:
    """All of a file of a run; `DataError` when a folder lies there or it cannot be read."""
    try:
        if path.is_file():
            return path.read_bytes()
        reason = "is no file" if path.exists() else "is not there"
    except OSError as error:
        reason = f"cannot be read ({error.strerror or error})"
    raise DataError(
        f"{path}: {reason}, expected a file of this run",
        hint="Move what does not belong there out of the folder, or make it readable.",
    )


def write_atomic(path: Path, data: bytes, *, option: str = "--out") -> None:
    """Replace `path` by `data`: temporary file, fsync, rename, fsync of the folder. All or nothing."""
    beginning = path.name[:40]  # the whole name may be as long as names can be
    temporary = path.with_name(f".{beginning}.{os.getpid()}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            _write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise disk_error(error, path, option=option) from error


def remove_temporaries(folder: Path) -> None:
    """Remove what a kill of `write_atomic` leaves below `folder`; nobody else may be writing there."""
    for path in folder.rglob(".*.tmp"):
        if re.fullmatch(r"\..*\.\d+\.tmp", path.name) and path.is_file():
            path.unlink(missing_ok=True)


class LineWriter:
    """Appends whole lines to one file. A line that does not fit is taken back, so no torn line is left."""

    def __init__(self, path: Path, *, durable: bool = True) -> None:
        self.path = path
        self._durable = durable
        try:
            created = not path.exists()
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            if created:
                _sync_folder(path.parent)
        except OSError as error:
            raise disk_error(error, path) from error

    def append(self, record: bytes) -> None:
        """Write `record` and a newline, and (if durable) wait until it is on disk."""
        size = os.fstat(self._descriptor).st_size
        try:
            _write_all(self._descriptor, record + b"\n")
            if self._durable:
                os.fsync(self._descriptor)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, size)
            raise disk_error(error, self.path) from error

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._descriptor)


def cut_torn_tail(path: Path) -> bytes:
    """Cut a last line without newline off `path` and keep it in `<name>.torn`; returns what was cut."""
    data = read_bytes(path)
    end = data.rfind(b"\n") + 1
    tail = data[end:]
    if tail:
        keeper = LineWriter(path.with_name(path.name + ".torn"))
        keeper.append(tail)
        keeper.close()
        try:
            with path.open("r+b") as file:
                file.truncate(end)
                os.fsync(file.fileno())
        except OSError as error:
            raise disk_error(error, path) from error
    return tail


def read_records(path: Path, kind: type[R], *, hint: str = DAMAGED) -> list[R]:
    """Records of a JSONL file in file order; a torn last line is left out.

    Any other bad line is a `DataError` that says what is wrong with the first and names the others.
    """
    data = read_bytes(path)
    records: list[R] = []
    faults: dict[int, DataError] = {}
    for number, line in enumerate(data[: data.rfind(b"\n") + 1].splitlines(), start=1):
        try:
            records.append(parse_record(line, kind, where=f"{path}:{number}", hint=hint))
        except DataError as fault:
            faults[number] = fault
    if faults:
        first, *others = faults
        listed = ", ".join(map(str, others[:10])) + (", ..." if len(others) > 10 else "")
        more = f"; unreadable too: {listed}" if others else ""
        raise DataError(faults[first].message + more, hint=faults[first].hint) from faults[first]
    return records


def parse_record(data: bytes, kind: type[R], *, where: str, hint: str = DAMAGED) -> R:
    """`data` as a record of `kind`; `DataError` names the place, the field and what was found there."""
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "(record)"
        more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        shown = _shown(first.get("input"))
        raise DataError(
            f"{where}: {field}: {first['msg']}, found {shown}{more}", hint=_schema_hint(field) or hint
        ) from error


def _elsewhere(option: str) -> str:
    return f"Choose another {'place' if option != '--out' else 'folder'} with {option}."


def _shown(value: object) -> str:
    """At most 80 characters; what is inside an object or a list is not the fault."""
    if isinstance(value, dict | list):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    found = repr(value)
    return found if len(found) <= SHOWN_CHARACTERS else found[: SHOWN_CHARACTERS - 3] + "..."


def _schema_hint(field: str) -> str | None:
    if field in {"schema", "schema_id"}:
        return "Written by another version of gravbench; use that version, or start again with --fresh."
    return None


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some file systems cannot sync a folder
            raise
    finally:
        os.close(descriptor)


GRACE_S = 1.0
"""How long to wait for a holder that is just ending: a killed process can leave a dying child behind."""

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class RunLock:
    """Context manager around `.lock`; raises `UsageError` (exit 2) when another live process holds it."""

    def __init__(self, folder: Path) -> None:
        from filelock import FileLock  # only writers of run folders lock

        self._folder = folder
        self._lock = FileLock(folder / ".lock")
        self._owner_file = folder / "lock.json"
        self.left_over: dict[str, object] | None = None
        """Owner named by a process that died without letting go; `None` after a clean exit."""

    def __enter__(self) -> RunLock:
        from filelock import Timeout  # narrower than TimeoutError, which a file system may raise too

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
