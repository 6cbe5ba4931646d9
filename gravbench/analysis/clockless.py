"""A run without its clocks: predictions, token ids, counters and scores, in bytes that can be compared.

No time, session, attempt, slot, host or run id is in it, so a run that was killed and resumed exports the
same bytes as one that never was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pydantic import JsonValue

from gravbench.store.rundir import PairKey
from gravbench.store.schema import GenRecord, Manifest, ScoreRecord, canonical_json

CLOCKLESS_SCHEMA = "gravbench.clockless/2"

_HEADER_FIELDS = (
    "suite",
    "suite_version",
    "suite_sha",
    "n_samples",
    "limit",
    "strategies",
    "seed",
    "model_digest",
    "dtype",
    "scorer",
    "assembler",
    "layout",
)


def clockless_lines(
    manifest: Manifest,
    pairs: Mapping[PairKey, Mapping[str, GenRecord]],
    scores: Iterable[ScoreRecord],
) -> list[bytes]:
    """A header line, then one line per (sample, rep, arm), sorted; the final newline belongs to each line."""
    by_key: dict[tuple[str, int, str], list[ScoreRecord]] = {}
    for score in scores:
        by_key.setdefault((score.sample_id, score.rep, score.arm), []).append(score)
    header: dict[str, JsonValue] = {"schema": CLOCKLESS_SCHEMA}
    identity = manifest.identity.model_dump(mode="json")
    header |= {name: identity[name] for name in _HEADER_FIELDS if identity[name] is not None}
    lines = [canonical_json(header) + b"\n"]
    for sample_id, rep in sorted(pairs):
        for arm, record in sorted(pairs[sample_id, rep].items()):
            lines.append(canonical_json(_line(record, by_key.get((sample_id, rep, arm), []))) + b"\n")
    return lines


def _line(record: GenRecord, scores: Sequence[ScoreRecord]) -> dict[str, JsonValue]:
    return {
        "sample_id": record.sample_id,
        "rep": record.rep,
        "arm": record.arm,
        "task": record.task,
        "input_sha": record.input_sha,
        "status": record.status,
        "error": record.error.model_dump(mode="json") if record.error else None,
        "stop_reason": record.stop_reason,
        "loop_flag": record.loop_flag,
        "text": record.text,
        "pieces": [piece.model_dump(mode="json", exclude={"trace": {"times"}}) for piece in record.pieces],
        "assembly": record.assembly.model_dump(mode="json", exclude={"stages"}) if record.assembly else None,
        "scores": [
            {
                "metric": score.metric,
                "signature": score.signature,
                "value": score.value,
                "counts": dict(score.counts),
                "failed": score.failed,
            }
            for score in sorted(scores, key=lambda s: s.metric)
        ],
    }
