"""Runs for the tests of the verdict: fake runs on disk, doctored copies, references, simulated tables."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from run_support import FakeBackend, fake_samples, fake_suite, run_fake, with_piece
from scipy import stats as scipy_stats

from gravbench.analysis.bootstrap import Floats
from gravbench.analysis.loaded import LoadedRun, load_run
from gravbench.analysis.pieces import CounterTable
from gravbench.gate.bless import provenance_text, write_reference
from gravbench.gate.candidate import judge_candidate
from gravbench.gate.policy import Policy, load_policy
from gravbench.gate.reference import Reference, load_reference
from gravbench.gate.verdict import GateReport, Verdict
from gravbench.runner.run import rescore
from gravbench.scorers.scoring import open_scorers
from gravbench.store.schema import RunIdentity, sha256_of, sha256_text

Line = dict[str, Any]

SAMPLES = 24


def make_run(
    path: Path, *, samples: int = SAMPLES, backend: FakeBackend | None = None, **options: Any
) -> LoadedRun:
    """A finished run of the fake backend."""
    run_fake(path, samples=samples, backend=backend or FakeBackend(), max_errors=_any(), **options)
    return load_run(path)


def doctored(
    source: Path, target: Path, *, edit: Callable[[Line], Line | None] | None = None, samples: int = SAMPLES
) -> LoadedRun:
    """A copy of a run whose generation lines went through `edit`, scored again. `None` drops a line."""
    shutil.copytree(source, target)
    shard = target / "gen" / "000.jsonl"
    lines = [json.loads(line) for line in shard.read_text().splitlines()]
    edited = [new for line in lines if (new := edit(line) if edit else line) is not None]
    shard.write_text("".join(json.dumps(line) + "\n" for line in edited))
    shutil.rmtree(target / "score")
    rescore(target, fake_suite(), fake_samples(samples))
    return load_run(target)


def with_scaled_times(line: Line, factor: float) -> Line:
    """The line with every time of its piece multiplied."""
    trace = line["pieces"][0]["trace"]
    times = {k: None if v is None else int(v * factor) for k, v in trace["times"].items()}
    return with_piece(line, trace={**trace, "times": times})


def with_text(line: Line, text: str) -> Line:
    """The line with another text of the same tokens' number, so that everything still adds up."""
    n = len(line["pieces"][0]["token_ids"])
    ids = [*(ord(c) % 1000 + 2 for c in text.ljust(n - 1, "~")), 0][-n:]
    return {**with_piece(line, text=text, token_ids=ids), "text": text, "text_sha": sha256_text(text)}


def with_identity(path: Path, **changes: Any) -> None:
    """Change fields of a run's identity, hash included, as a run of another kind would have them."""
    file = path / "manifest.json"
    manifest = json.loads(file.read_text())
    manifest["identity"] |= changes
    manifest["identity_sha"] = sha256_of(RunIdentity.model_validate(manifest["identity"]).document())
    file.write_text(json.dumps(manifest))


def bless(run: LoadedRun, folder: Path) -> Reference:
    """Write `run` as the reference below `folder` and read it back."""
    scorers = open_scorers(["crops"])
    quality = {arm: scorers.aggregate(s for own in run.unit_scores(arm) for s in own) for arm in run.arms}
    text = provenance_text(run, reason="for a test", who="test", date="2020-01-01T00:00:00+00:00")
    target = folder / "fake"
    write_reference(run, target, quality=quality, provenance=text)
    return load_reference(target)


def judged(
    run: LoadedRun, reference: Reference, *, policy: Policy | None = None, **options: Any
) -> GateReport:
    """The gate in mode candidate under one policy, with few resamples."""
    chosen = policy or quick_policy()
    return judge_candidate(run, reference, lambda _arm: chosen, **options)


def quick_policy(**changes: Any) -> Policy:
    """The default policy with 400 resamples; `changes` replace whole rules by name."""
    policy = load_policy().model_copy(update={"resamples": 400})
    rules = policy.rules.model_copy(
        update={
            name: getattr(policy.rules, name).model_copy(update=values) for name, values in changes.items()
        }
    )
    return policy.model_copy(update={"rules": rules})


def failed_rules(report: GateReport) -> set[str]:
    """Names of the rules that failed."""
    return {verdict.rule for verdict in report.verdicts if verdict.status == "fail"}


def by_rule(report: GateReport, rule: str, arm: str = "selfspec") -> Verdict:
    """The one verdict of a rule and strategy."""
    (found,) = [v for v in report.verdicts if v.rule == rule and v.arm == arm]
    return found


def simulated_table(
    rng: np.random.Generator, n: int, *, drop: float = 0.0, noise: float = 0.08
) -> CounterTable:
    """Two runs on equal outputs: lognormal lengths, 6 tokens a round give or take a fifth by sample.

    The own side's rounds carry `noise` and, on top, a loss of `drop` in tokens per round.
    """
    tokens = rng.lognormal(4, 0.6, n)
    base_rounds = tokens / (6 * np.exp(rng.normal(0, 0.2, n)))
    own_rounds = base_rounds * np.exp(rng.normal(0, noise, n)) / (1 - drop)
    sides = [(tokens, rounds, 2 * rounds, tokens - 1.2 * rounds) for rounds in (base_rounds, own_rounds)]
    columns: Floats = np.column_stack([column for side in sides for column in side])
    return CounterTable(columns=columns, comparable=(True,) * n, identical=(True,) * n)


def share_with_interval(hits: int, trials: int) -> tuple[float, float, float]:
    """hits / trials and its exact 95 % interval (Clopper and Pearson)."""
    interval = scipy_stats.binomtest(hits, trials).proportion_ci()
    return hits / trials, float(interval.low), float(interval.high)


def _any() -> Any:
    from gravbench.options import ErrorLimit

    return ErrorLimit(share=1.0)
