"""`gravbench export`."""

from __future__ import annotations

import sys
from pathlib import Path

from gravbench.analysis.clockless import clockless_lines
from gravbench.errors import NotComparableError, UsageError
from gravbench.store.files import make_folder, write_atomic
from gravbench.store.rundir import RunDirectory, finished_pairs


def export_run(run_dir: Path, *, clockless: bool, out: Path | None) -> int:
    """Write the clockless lines of a finished, scored run to `out` or stdout."""
    if not clockless:
        raise UsageError("export needs to know what to write", hint="Add --clockless.")
    run = RunDirectory(run_dir)
    manifest = run.manifest()
    pairs = finished_pairs(run, manifest)
    scores = run.scores(str(manifest.identity["scorer"]))
    scored = {(score.sample_id, score.rep, score.arm) for score in scores}
    unscored = [
        record
        for arms in pairs.values()
        for record in arms.values()
        if (record.sample_id, record.rep, record.arm) not in scored
    ]
    if unscored:
        raise NotComparableError(
            f"{run_dir}: {len(unscored)} predictions have no score, the first is of {unscored[0].sample_id}",
            hint=f"Run `gravbench score {run_dir}` first.",
        )
    data = b"".join(clockless_lines(manifest, pairs, scores))
    if out is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    else:
        make_folder(out.parent)
        write_atomic(out, data)
    return 0
