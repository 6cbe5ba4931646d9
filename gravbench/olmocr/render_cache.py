"""Renderings kept between runs, by what they were made with. Successes only.

Losing it costs time, never a result.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import platformdirs

from gravbench.olmocr.rendering import Rejected, Rendered, Renderer, Rendering

BUSY_S = 5.0
"""How long another process' write is waited for; then this run goes without the cache."""
MAX_BYTES = 512 * 1024 * 1024
"""A larger file is begun anew."""
CHUNK = 500


def default_cache_file() -> Path:
    """Where renderings are kept unless told otherwise."""
    return Path(platformdirs.user_cache_dir("gravbench")) / "olmocr" / "equations.sqlite"


class CachedRenderer:
    """A renderer that looks into a file first. A file that cannot be used is left alone."""

    def __init__(self, renderer: Renderer, path: Path) -> None:
        self._renderer, self._path = renderer, path
        self._known_signature: str | None = None
        self.hits = 0

    @property
    def signature(self) -> str:
        if self._known_signature is None:
            self._known_signature = self._renderer.signature
        return self._known_signature

    def render(self, equations: Sequence[str]) -> list[Rendering]:
        found = self._look_up(equations)
        self.hits += len(found)
        lost = [equation for equation in dict.fromkeys(equations) if equation not in found]
        if lost:
            rendered = dict(zip(lost, self._renderer.render(lost), strict=True))
            self._keep(rendered)
            found.update(rendered)
        return [found[equation] for equation in equations]

    def close(self) -> None:
        self._renderer.close()

    def _key(self, equation: str) -> bytes:
        text = f"{self.signature}\0{equation}"
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()

    def _look_up(self, equations: Sequence[str]) -> dict[str, Rendering]:
        keys = {self._key(equation): equation for equation in equations}
        found: dict[str, Rendering] = {}
        if not self._path.is_file():
            return found
        try:
            with self._open() as database:
                asked = list(keys)
                for start in range(0, len(asked), CHUNK):
                    part = asked[start : start + CHUNK]
                    marks = ",".join("?" * len(part))
                    query = f"SELECT key, value FROM renderings WHERE key IN ({marks})"
                    for key, value in database.execute(query, part):
                        found[keys[key]] = Rendered.from_record(json.loads(value))
        except (sqlite3.Error, OSError, ValueError, KeyError, TypeError):
            return {}
        return found

    def _keep(self, rendered: dict[str, Rendering]) -> None:
        rows = [
            (self._key(equation), json.dumps(rendering.to_record()))
            for equation, rendering in rendered.items()
            if not isinstance(rendering, Rejected)
        ]
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if self._path.is_file() and self._path.stat().st_size > MAX_BYTES:
                self._path.unlink()
            with self._open() as database, database:
                database.execute("CREATE TABLE IF NOT EXISTS renderings (key BLOB PRIMARY KEY, value TEXT)")
                database.executemany("INSERT OR REPLACE INTO renderings VALUES (?, ?)", rows)
        except (sqlite3.Error, OSError, UnicodeEncodeError):
            return

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._path, timeout=BUSY_S)) as database:
            yield database
