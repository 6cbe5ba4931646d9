"""A folder of small entries named by what they were made from. Safe to share, to break and to delete.

An entry is written beside its place and moved there in one step, and starts with a digest of the rest: a
reader sees a whole entry or none. What cannot be read or written costs a rendering, never a result.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from pathlib import Path

import platformdirs

DEFAULT_MAX_BYTES = 256 * 1024 * 1024
_DIGEST = hashlib.sha256().digest_size
_SUFFIX = ".cdm"


def default_cache_dir() -> Path:
    """Where renderings are kept unless told otherwise."""
    return Path(platformdirs.user_cache_dir("gravbench")) / "cdm"


def digest_key(*parts: str) -> str:
    """Name of an entry: a digest of all parts, their borders included."""
    state = hashlib.sha256()
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        state.update(len(encoded).to_bytes(8, "big"))
        state.update(encoded)
    return state.hexdigest()


class Cache:
    """Entries below one folder, at most about `max_bytes` of them after `trim`."""

    def __init__(self, folder: Path, *, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self.folder = folder
        self.max_bytes = max_bytes
        self.corrupt = 0
        """Entries found broken, and removed."""
        self.unwritten = 0
        """Entries that could not be written."""
        self.written = 0

    def get(self, key: str) -> bytes | None:
        """The content of an entry; `None` when it is absent, unreadable or not what was written."""
        path = self._path(key)
        try:
            stored = path.read_bytes()
        except OSError:
            return None
        digest, content = stored[:_DIGEST], stored[_DIGEST:]
        if hashlib.sha256(content).digest() == digest:
            return content
        self.corrupt += 1
        _remove(path)
        return None

    def put(self, key: str, content: bytes) -> bool:
        """Store an entry; False when the disk would not have it."""
        path = self._path(key)
        temporary = path.with_suffix(f".{os.getpid()}-{secrets.token_hex(4)}.tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(hashlib.sha256(content).digest() + content)
            temporary.replace(path)
        except OSError:
            _remove(temporary)
            self.unwritten += 1
            return False
        self.written += 1
        return True

    def trim(self) -> int:
        """Past the bound, remove the oldest entries down to three quarters of it; bytes removed."""
        entries = sorted(self._entries())
        total = sum(size for _, size, _ in entries)
        removed = 0
        if total > self.max_bytes:
            for _, size, path in entries:
                if total - removed <= self.max_bytes * 3 // 4:
                    break
                _remove(Path(path))
                removed += size
        return removed

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key[2:]}{_SUFFIX}"

    def _entries(self) -> list[tuple[int, int, str]]:
        """Age, size and path of every entry, and of what a killed process left behind."""
        found = []
        try:
            shelves = [shelf for shelf in os.scandir(self.folder) if shelf.is_dir()]
        except OSError:
            return []
        for shelf in shelves:
            try:
                for entry in os.scandir(shelf):
                    stat = entry.stat()
                    found.append((stat.st_mtime_ns, stat.st_size, entry.path))
            except OSError:
                continue  # another process removed it in between
        return found


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
