"""`gravbench suites verify|fetch`."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import JsonValue

from gravbench.cli.output import print_json
from gravbench.cli.progress import make_progress
from gravbench.errors import DataError
from gravbench.printable import printable
from gravbench.store.schema import canonical_json
from gravbench.suites.data import data_folder
from gravbench.suites.download import fetch_pages
from gravbench.suites.manifest import load_suite
from gravbench.suites.status import Verification, verify_suite

SHOWN_FAULTS = 20


def verify(name: str, *, data: Path | None, as_json: bool) -> int:
    """Print what was checked; 0 when all is well, else 5."""
    suite = load_suite(name)
    found = verify_suite(suite, data_folder(suite, data=data, environ=os.environ))
    if as_json:
        print_json(canonical_json({"schema": "gravbench.verification/1", **_document(found)}))
    else:
        _print(found)
    return 0 if found.ok else DataError.exit_code


def fetch(name: str, *, data: Path | None, quiet: bool) -> int:
    """Download, then verify what came."""
    suite = load_suite(name)
    folder = fetch_pages(suite, data=data, environ=os.environ, note=make_progress(quiet=quiet).note)
    found = verify_suite(suite, folder)
    if not quiet:
        _print(found)
    return 0 if found.ok else DataError.exit_code


def _document(found: Verification) -> dict[str, JsonValue]:
    return {
        "suite": found.suite,
        "folder": None if found.folder is None else str(found.folder),
        "label": found.label,
        "partial": found.partial,
        "crops": found.crops,
        "pages": found.pages,
        "faults": list(found.faults),
        "ok": found.ok,
    }


def _print(found: Verification) -> None:
    print(f"{found.suite}: {found.crops:,} crops, {found.pages:,} pages", flush=True)
    if found.folder is not None:
        print(f"data: {found.label}, in {printable(str(found.folder))}")
    for fault in found.faults[:SHOWN_FAULTS]:
        print(f"fault: {printable(fault)}")
    hidden = len(found.faults) - SHOWN_FAULTS
    if hidden > 0:
        print(f"... and {_faults(hidden, 'more ')} (--json lists them)")
    print("all well" if found.ok else _faults(len(found.faults)), flush=True)


def _faults(count: int, more: str = "") -> str:
    return f"{count:,} {more}fault{'' if count == 1 else 's'}"
