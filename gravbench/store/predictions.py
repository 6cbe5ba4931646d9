"""`predictions/<strategy>/<image stem>.md`: each page's Markdown as official scoring wants to find it.

Derived from the records; may be deleted and rebuilt.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gravbench.store.files import make_folder, write_atomic
from gravbench.store.schema import GenRecord


def predictions_folder(run_dir: Path, arm: str) -> Path:
    """Folder of one strategy's Markdown files."""
    return run_dir / "predictions" / arm


def write_markdown(run_dir: Path, record: GenRecord) -> None:
    """Write one page's Markdown; a failed page gets an empty file, which scores as it should.

    Official scoring reads pages alone: of a crop nothing is written.
    """
    if record.task != "page":
        return
    folder = predictions_folder(run_dir, record.arm)
    make_folder(folder)
    write_atomic(folder / f"{record.sample_id}.md", record.text.encode("utf-8"))


def write_missing_markdown(run_dir: Path, records: Iterable[GenRecord]) -> None:
    """Write the files that are absent or not what the record says."""
    for record in records:
        path = predictions_folder(run_dir, record.arm) / f"{record.sample_id}.md"
        if not path.is_file() or path.read_bytes() != record.text.encode("utf-8"):
            write_markdown(run_dir, record)
