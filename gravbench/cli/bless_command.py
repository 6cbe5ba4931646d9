"""`gravbench bless`."""

from __future__ import annotations

import getpass
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from rich.text import Text

from gravbench.analysis.loaded import run_data
from gravbench.cli.output import print_json, print_tables
from gravbench.cli.run_loading import load_with_facts
from gravbench.cli.verdict_verbs import Bless
from gravbench.errors import DataError, UsageError
from gravbench.gate.bless import bless_changes, check_blessable, check_whole, provenance_text, write_reference
from gravbench.gate.reference import RUN_FILE, Reference, load_reference
from gravbench.scorers.scoring import open_scorers
from gravbench.store.schema import canonical_json

REFERENCE_ROOT = Path("reference_outputs")


def bless(given: Bless) -> int:
    """Print what would change, then (unless a dry run) write `<to>/<suite>/<strategy>/`."""
    if not given.reason.strip():
        raise UsageError("--reason is empty", hint="Say why this run is what we vouch for now.")
    root = given.to if given.to is not None else REFERENCE_ROOT
    if given.to is None and not root.is_dir():
        raise UsageError(
            f"{root}: no such folder here", hint="Run at the top of a checkout, or give --to DIR."
        )
    loaded = load_with_facts(given.run)
    check_blessable(loaded, allow_differing=given.allow_differing)
    folder = root / loaded.manifest.identity.suite
    changes = bless_changes(loaded, _existing(folder))
    if not given.json:
        print_tables(*(Text(line) for change in changes for line in _lines(change.arm, change.lines)))
    check_whole(loaded, folder)
    data = run_data(loaded.manifest.protocol)
    written: list[Path] = []
    if not given.dry_run:
        scorers = open_scorers(loaded.manifest.identity.scorer.split("+"))
        quality = {
            arm: scorers.aggregate(score for own in loaded.unit_scores(arm) for score in own)
            for arm in loaded.arms
        }
        provenance = provenance_text(
            loaded,
            reason=" ".join(given.reason.split()),
            who=given.who or _author(),
            date=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        written = write_reference(loaded, folder, quality=quality, provenance=provenance)
    if given.json:
        document = {
            "schema": "gravbench.blessing/1",
            "suite": loaded.manifest.identity.suite,
            "data": None if data is None else data.model_dump(mode="json", exclude_none=True),
            "changes": [change.model_dump(mode="json") for change in changes],
            "written": [str(path) for path in written],
        }
        print_json(canonical_json(document))
    else:
        print_tables(*(Text(f"written: {path}") for path in written))
    return 0


def _lines(arm: str, lines: tuple[str, ...]) -> list[str]:
    return [f"{arm}:", *(f"  {line}" for line in lines)]


def _existing(folder: Path) -> Reference | None:
    """What is vouched for now, if anything; a broken reference is a `DataError`, since nobody can say what
    blessing would change of it."""
    if not any(folder.glob(f"*/{RUN_FILE}")):
        return None
    try:
        return load_reference(folder)
    except DataError as fault:
        raise DataError(
            f"the reference that is to be replaced cannot be read: {fault.message}",
            hint=f"Restore it, or move {folder} away to bless anew.",
        ) from fault


def _author() -> str:
    """Name from git, else of the account."""
    try:
        done = subprocess.run(["git", "config", "user.name"], capture_output=True, check=True, timeout=5)
        name = done.stdout.decode("utf-8", errors="replace").strip()
    except (OSError, subprocess.SubprocessError):
        name = ""
    return name or getpass.getuser()
