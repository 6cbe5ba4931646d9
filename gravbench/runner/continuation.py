"""Whether a command may go on with a folder's run: the same plan, or one whose failed inputs are mended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gravbench.errors import UsageError
from gravbench.store.rundir import RunDirectory, amended, complete_pairs, is_failed
from gravbench.store.schema import Amendment, GenRecord, Manifest, sha256_of

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
