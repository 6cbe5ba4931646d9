"""Results of `gravbench omnidoc` as the arms of one run in memory, so that what compares runs compares them.

Every result is an arm, named after its folder of predictions; the first is what the others are held against.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from gravbench.analysis.loaded import IMPORTED, ElementSums, LoadedRun, ScoreKey, Unit, facts_of, named
from gravbench.errors import NotComparableError, UsageError
from gravbench.omnidocbench.page_metrics import SCORER
from gravbench.omnidocbench.result_file import PageRecord, Result, read_result
from gravbench.resources import __version__
from gravbench.store.schema import (
    GenError,
    GenRecord,
    Manifest,
    PlanEntry,
    RunIdentity,
    ScoreRecord,
    sha256_of,
    sha256_text,
)
from gravbench.suites.page_folder import sample_id_of

ABSENT = ("token_ids", "counters", "stop_reason", "times")
"""What a result does not tell."""


@dataclass(frozen=True, kw_only=True)
class ComparedResults:
    """`problems`: in what the results answer different questions; empty unless that was forced."""

    run: LoadedRun
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Described:
    sample_id: str
    attributes: Mapping[str, bool | int | str]
    listed: frozenset[str]
    task: str = "page"


def are_results(paths: Sequence[Path]) -> bool:
    """Whether these are files of results rather than folders of runs; a mixture is a `UsageError`."""
    files = [path for path in paths if path.is_file()]
    if files and len(files) < len(paths):
        folder = next(path for path in paths if path not in files)
        raise UsageError(
            f"{files[0]} is a result of gravbench omnidoc, {folder} is none: they do not compare",
            hint="Compare results with results, or bring the predictions into a run: gravbench import.",
        )
    return bool(files)


def load_results(paths: Sequence[Path], *, force: bool = False) -> ComparedResults:
    """The results as arms of one run, over their common pages.

    `NotComparableError` where signatures differ, and, unless `force`, where pages or their ground truth do.
    """
    results = [read_result(path) for path in paths]
    for first, other in ((0, n) for n in range(1, len(results))):
        _same_signatures(results[first], results[other], paths[first], paths[other])
    problems = tuple(
        problem
        for n in range(1, len(results))
        for problem in _other_pages(results[0], results[n], paths[0], paths[n])
    )
    if problems and not force:
        raise NotComparableError(
            "; ".join(problems),
            hint="Score both against one annotation file, or add --force to look at the common pages.",
        )
    pages = [_pages(result) for result in results]
    digests = pages[0]
    common = sorted(
        page
        for page in pages[0]
        if all(
            page in own and own[page].facts.reference_sha256 == digests[page].facts.reference_sha256
            for own in pages
        )
    )
    if not common:
        raise NotComparableError("the results have no page in common", hint="Compare results of one data.")
    return ComparedResults(run=_run(results, paths, pages, common), problems=problems)


def _pages(result: Result) -> dict[str, PageRecord]:
    return {sample_id_of(record.page): record for record in result.page_records}


def _same_signatures(base: Result, own: Result, base_path: Path, own_path: Path) -> None:
    theirs, mine = base.scorer.signatures, own.scorer.signatures
    for metric in sorted({*theirs, *mine}):
        if theirs.get(metric) != mine.get(metric):
            raise NotComparableError(
                f"{metric} has another signature in {own_path} than in {base_path}: "
                f"{mine.get(metric)}, was {theirs.get(metric)}",
                hint="Score both with the same program and options: gravbench omnidoc --out FILE.",
            )


def _other_pages(base: Result, own: Result, base_path: Path, own_path: Path) -> list[str]:
    theirs, mine = _pages(base), _pages(own)
    changed = [
        page
        for page in theirs
        if page in mine and theirs[page].facts.reference_sha256 != mine[page].facts.reference_sha256
    ]
    found = (
        (sorted(set(theirs) - set(mine)), f"pages of {base_path.name} are missing in {own_path.name}"),
        (sorted(set(mine) - set(theirs)), f"pages of {own_path.name} are not in {base_path.name}"),
        (changed, f"pages have another ground truth in {own_path.name} than in {base_path.name}"),
    )
    return [f"{len(pages)} {what}: {named(pages)}" for pages, what in found if pages]


def arm_names(results: Sequence[Result], paths: Sequence[Path]) -> list[str]:
    """Names of the prediction folders; of the files where two folders are called alike."""
    for names in ([result.name for result in results], [path.stem for path in paths]):
        plain = [re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._")[:64] for name in names]
        if all(plain) and len(set(plain)) == len(plain):
            return plain
    seen = Counter[str]()
    numbered = []
    for name in plain:
        seen[name] += 1
        numbered.append(f"{name or 'result'}-{seen[name]}")
    return numbered


def _run(
    results: Sequence[Result],
    paths: Sequence[Path],
    pages: Sequence[Mapping[str, PageRecord]],
    common: Sequence[str],
) -> LoadedRun:
    arms = arm_names(results, paths)
    manifest = _manifest(results, paths, pages, common, arms)
    units, scores = [], dict[ScoreKey, tuple[ScoreRecord, ...]]()
    elements = dict[ScoreKey, ElementSums]()
    for row, page in enumerate(common):
        records = {}
        for column, (arm, own, result) in enumerate(zip(arms, pages, results, strict=True)):
            record = _record(own[page], page, arm, slot=column * len(common) + row, manifest=manifest)
            records[arm] = record
            scores[page, 0, arm] = _scores(own[page], record, result.scorer.signatures)
            elements[page, 0, arm] = own[page].elements
        units.append(Unit(sample_id=page, rep=0, task="page", records=records))
    described = [
        _Described(
            sample_id=page,
            attributes=pages[0][page].facts.attributes,
            listed=frozenset(pages[0][page].facts.listed),
        )
        for page in common
    ]
    return LoadedRun(
        name=" and ".join(path.name for path in paths),
        manifest=manifest,
        units=tuple(units),
        scores=scores,
        facts=facts_of(described),
        elements=elements,
    )


def _manifest(
    results: Sequence[Result],
    paths: Sequence[Path],
    pages: Sequence[Mapping[str, PageRecord]],
    common: Sequence[str],
    arms: Sequence[str],
) -> Manifest:
    inputs, data = results[0].inputs, results[0].data
    digests = [(page, pages[0][page].facts.reference_sha256) for page in common]
    identity = RunIdentity(
        gravbench=__version__,
        suite=str(inputs.get("gt", "OmniDocBench.json")),
        suite_version=1,
        suite_sha=str(inputs.get("gt_sha256", "")),
        n_samples=len(common),
        samples_sha=sha256_of(digests),
        prompts={},
        max_new_tokens={},
        scorer=SCORER,
        strategies=tuple(arms),
        seed=0,
        backend=IMPORTED,
        engine="unknown",
        model_digest=sha256_of(
            {arm: [own[page].markdown for page in common] for arm, own in zip(arms, pages, strict=True)}
        ),
        device="unknown",
        dtype="unknown",
        threads=1,
    )
    sha = sha256_of(identity.document())
    whole = len(common) == len(results[0].page_records)
    imports: dict[str, JsonValue] = {
        arm: {
            "source": path.name,
            "kind": f"a result of gravbench omnidoc ({path.name})",
            "missing": sum(own[page].fault is not None for page in common),
            "absent": dict.fromkeys(ABSENT, "a result has texts and scores alone"),
        }
        for arm, path, own in zip(arms, paths, pages, strict=True)
    }
    return Manifest(
        run_id=f"results-{sha[:8]}",
        created_utc=datetime.fromtimestamp(paths[0].stat().st_mtime, UTC).isoformat(timespec="seconds"),
        argv=(),
        identity=identity,
        identity_sha=sha,
        plan=tuple(
            PlanEntry(slot=len(common) * column + row, sample_id=page, arm=arm)
            for column, arm in enumerate(arms)
            for row, page in enumerate(common)
        ),
        model={"model": ", ".join(arms)},
        environment={},
        protocol={
            "interleave": "none: texts were scored, nothing was decoded",
            "imports": imports,
            "data": _data(data, chosen="chosen" in inputs or not whole, pages=len(common)),
        },
    )


def _data(data: Mapping[str, Any], *, chosen: bool, pages: int) -> dict[str, JsonValue]:
    return {
        "label": str(data.get("label", "")),
        "partial": bool(data.get("partial")) or chosen,
        "drifted": bool(data.get("drifted")),
        "pages_in_run": pages,
    }


def _record(page: PageRecord, sample_id: str, arm: str, *, slot: int, manifest: Manifest) -> GenRecord:
    error = None
    if page.fault is not None:
        error = GenError(kind="MissingPrediction", message=page.fault, stage="import")
    return GenRecord(
        run_id=manifest.run_id,
        session_id=arm,
        sample_id=sample_id,
        arm=arm,
        rep=0,
        slot=slot,
        attempt=1,
        task="page",
        suite_sha=manifest.identity.suite_sha,
        input_sha=page.facts.reference_sha256,
        prompt_sha=sha256_text(""),
        max_new_tokens=1,
        status="ok" if error is None else "error",
        error=error,
        stop_reason=None if error is None else "error",
        loop_flag=False,
        text=page.markdown,
        text_sha=sha256_text(page.markdown),
        pieces=(),
        imported=True,
        timing_source="import",
        submit_ns=0,
        done_ns=0,
    )


def _scores(page: PageRecord, record: GenRecord, signatures: Mapping[str, str]) -> tuple[ScoreRecord, ...]:
    why = f"{record.error.kind}: {record.error.message}" if record.error is not None else None
    return tuple(
        ScoreRecord(
            sample_id=record.sample_id,
            arm=record.arm,
            task="page",
            metric=score.metric,
            signature=signatures.get(score.metric, "unknown"),
            value=score.value,
            counts=score.counts,
            failed=record.status != "ok",
            reason=score.reason if score.value is None else why,
            notes=score.notes,
            prediction_sha=record.text_sha,
            reference_sha=page.facts.reference_sha256,
        )
        for score in page.scores
    )
