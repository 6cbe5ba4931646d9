"""Which folder a run writes into: a new one, or the one it continues. Nothing is ever deleted.

It continues the same plan, or one whose failed inputs are mended.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from gravbench.errors import DataError, UsageError
from gravbench.options import RunOptions
from gravbench.store.files import RunLock, disk_error, make_folder, refuse_file
from gravbench.store.rundir import RunDirectory, amended, complete_pairs, is_failed, runs_below
from gravbench.store.schema import Amendment, GenRecord, Manifest, sha256_of


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A locked run folder. `resumed` when it already held this plan."""

    run: RunDirectory
    manifest: Manifest
    resumed: bool
    took_over: dict[str, object] | None
    """Owner of a lock left by a process that was killed."""


@contextlib.contextmanager
def claim_named(out: Path, *, fresh: bool) -> Iterator[tuple[RunDirectory, RunLock]]:
    """Lock the folder given by --out before any model is loaded; set an old run aside if `fresh`.

    When the run then fails before its manifest is written, all is as it was before.
    """
    out = out if out.name else out.resolve()  # "." has no name, and moves away with the folder it names
    refuse_file(out)
    made = [folder for folder in (out, *out.parents) if not folder.exists()]
    make_folder(out)
    run = RunDirectory(out)
    if run.holds_foreign_files():
        raise UsageError(
            f"{out}: not empty, and holds no run (manifest.json is missing)",
            hint="Choose an empty or new folder with --out.",
        )
    aside: Path | None = None
    if fresh and run.exists():
        with RunLock(out):
            pass
        aside = set_aside(out)
        made = [out]
        make_folder(out)
    try:
        with RunLock(out) as lock:
            yield run, lock
    except BaseException:
        if not run.exists():
            _leave_no_trace(made, aside=aside)
        raise


def open_named(run: RunDirectory, lock: RunLock, manifest: Manifest, again: Continuation) -> Claim:
    """Continue the run in a claimed folder if it has the same plan, or start it there."""
    if not run.exists():
        run.create(manifest)
        return Claim(run=run, manifest=manifest, resumed=False, took_over=lock.left_over)
    return Claim(run=run, manifest=again.of(run, manifest), resumed=True, took_over=lock.left_over)


@contextlib.contextmanager
def claim_under(root: Path, manifest: Manifest, again: Continuation, *, fresh: bool) -> Iterator[Claim]:
    """Lock the newest run of this plan under `root` that can go on, or a new folder named after the run.

    One that ended can be continued where its failed samples are to be decoded again.
    """
    found = None if fresh else newest_open(root, manifest.identity_sha, ended=again.retry_failed)
    run = found or RunDirectory(root / manifest.run_id)
    make_folder(run.path)
    with RunLock(run.path) as lock:
        yield open_named(run, lock, manifest, again)


def newest_open(root: Path, identity_sha: str, *, ended: bool = False) -> RunDirectory | None:
    """Newest run under `root` with this plan that has no summary yet, or also one that has; unreadable ones
    are skipped."""
    for run in runs_below(root):
        try:
            same = run.manifest().identity_sha == identity_sha
        except (DataError, OSError):
            continue
        if same and (ended or not is_complete(run)):
            return run
    return None


def is_complete(run: RunDirectory) -> bool:
    """Whether a run ended with a summary."""
    state = run.state()
    return state is not None and state.phase == "complete" and run.summary_file.is_file()


def set_aside(folder: Path) -> Path:
    """Rename `folder` to the first free `<name>.old-N`; returns the new path."""
    number = 1
    while (target := folder.with_name(f"{folder.name}.old-{number}")).exists():
        number += 1
    try:
        folder.rename(target)
    except OSError as error:
        raise disk_error(error, folder) from error
    return target


def run_name(suite: str, *, model_digest: str, identity_sha: str, now: datetime) -> str:
    """`<UTC>-<suite>-<model8>-<cfg8>`: for people; identity lies in the manifest's hashes."""
    return f"{now:%Y%m%dT%H%M%S%f}Z-{suite}-{model_digest[:8]}-{identity_sha[:8]}"


def writable_root(options: RunOptions) -> None:
    """Check before loading a model that run folders can be made; `UsageError` otherwise. Makes nothing."""
    root = options.runs_root
    refuse_file(root)
    place = next(p for p in (root, *root.resolve().parents) if p.exists())
    if not os.access(place, os.W_OK | os.X_OK):
        raise UsageError(
            f"{place}: not writable, expected a folder for new runs", hint="Name one with --out."
        )


def _leave_no_trace(made: Sequence[Path], *, aside: Path | None) -> None:
    """Undo the claim of a run that never started: remove the folders made for it, bring the old run back."""
    if not made:
        return
    with contextlib.suppress(OSError):
        (made[0] / ".lock").unlink(missing_ok=True)
        for folder in made:
            folder.rmdir()
    if aside is not None and not made[0].exists():
        with contextlib.suppress(OSError):
            aside.rename(made[0])


NAMED = 3
"""Samples that a message names; of more it gives the number."""


def digest_of_inputs(inputs: Mapping[str, str]) -> str:
    """Digest of the samples' names and inputs; `inputs` is sample id -> digest of image and annotation."""
    return sha256_of(list(inputs.items()))


@dataclass(frozen=True, kw_only=True)
class Continuation:
    """What a command brings to a run that exists.

    `inputs`: sample id -> digest of its image and annotation.
    """

    inputs: Mapping[str, str]
    retry_failed: bool = False

    def of(self, run: RunDirectory, asked: Manifest) -> Manifest:
        """The manifest to go on with; `UsageError` where the folder holds another plan.

        A failed sample whose input is another one now makes no other plan: it is decoded again when the
        command asks for that, and the run then says what was mended.
        """
        stored = run.manifest()
        difference = asked.identity.differing_field(stored.identity)
        if difference is None:
            return stored
        same_inputs = stored.identity.model_copy(update={"samples_sha": asked.identity.samples_sha})
        if asked.identity.differing_field(same_inputs) is not None:
            raise _another_plan(run, difference)
        records = run.generations()
        changed = self._changed(records, stored)
        if changed is None:
            raise _another_plan(run, difference)
        pairs = complete_pairs(records, stored.plan)
        whole = [s for s in changed if not any(is_failed(p) for (name, _), p in pairs.items() if name == s)]
        if whole:
            raise UsageError(
                f"{run.path}: {_named(whole)}: image or annotation changed since the run decoded it",
                hint="Bring the old file back, choose another folder, or start anew with --fresh.",
            )
        if not self.retry_failed:
            raise UsageError(
                f"{run.path}: {_named(changed)}: failed in this run, and its image or annotation has changed",
                hint="Add --retry-failed to decode failed samples again; the first attempts stay recorded.",
            )
        earlier = run.amendment()
        amendment = Amendment(
            samples_sha=asked.identity.samples_sha,
            mended=tuple(sorted({*changed, *(earlier.mended if earlier else ())})),
            data=asked.protocol.get("data"),
        )
        run.amend(amendment)
        return amended(stored, amendment)

    def _changed(self, records: list[GenRecord], stored: Manifest) -> list[str] | None:
        """Samples whose input is another one now than the run read; `None` where that does not explain the
        run's digest of all inputs (a sample not decoded yet has changed, or samples came or went)."""
        read = {record.sample_id: record.input_sha for record in records}  # of the last attempt
        before = {name: read.get(name, digest) for name, digest in self.inputs.items()}
        if digest_of_inputs(before) != stored.identity.samples_sha:
            return None
        return [name for name, digest in before.items() if digest != self.inputs[name]]


def _another_plan(run: RunDirectory, difference: str) -> UsageError:
    return UsageError(
        f"{run.path}: holds a run with another plan; {difference}",
        hint="Repeat the command that started it, choose another folder, or start anew with --fresh.",
    )


def _named(sample_ids: list[str]) -> str:
    more = len(sample_ids) - NAMED
    return ", ".join(sample_ids[:NAMED]) + (f" and {more} more" if more > 0 else "")
