"""The words of terminal, report, policy and JSON, each with its formula, and published figures beside ours.

One name for one thing: counters go by their JSON names everywhere, metrics by the tables of their scorers.
Published names hide different definitions, so each figure stands with its own.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Literal

from gravbench.analysis.loaded import run_data
from gravbench.analysis.quality import metric_rows
from gravbench.omnidocbench.page_metrics import OVERALL, SCORER
from gravbench.records import Record
from gravbench.reporting.charts import Named, any_batch
from gravbench.reporting.document import ReportDocument
from gravbench.reporting.tables import NONE, Cell, Table, interval, number, table
from gravbench.scorers.contract import Metric

COUNTERS = {
    "tpf_all": "decode tokens / full-model decode forwards of every kind, drafts and checks alike, without "
    "prefill",
    "tau_round": "tokens committed / rounds: everything a round appended, after trimming at the stop",
    "accepted_draft": "accepted draft tokens / rounds; no seed, no correction, no bonus",
    "acceptance_rate": "accepted / offered draft tokens",
    "tau_bonus": "accepted_draft + 1: what many papers call acceptance length",
    "chars_per_forward": "characters of the final text / decode forwards, so that a finer tokenizer gains "
    "nothing",
    "requests_per_forward": "requests that shared a forward on average: how full batches were",
}
"""Counter, under its one name -> its formula."""


def counter_words(*names: str) -> str:
    """`tpf_all = decode tokens / ...; tau_round = ....`, for the legend below a table."""
    return "; ".join(f"{name} = {COUNTERS[name]}" for name in names) + "."


def _counter(name: str, more: str = "") -> tuple[str, str]:
    said = COUNTERS[name]
    return name, said[0].upper() + said[1:] + "." + more


def definitions(document: ReportDocument) -> list[tuple[str, str]]:
    """The words of a page with what they mean: those of every page, and the metrics that its runs have."""
    there = {metric for run in document.runs for arm in run.arms for metric in arm.levels}
    metrics = [
        (f"{m.label} ({m.name})", f"{m.definition} {_scale(m)}")
        for m in metric_rows().values()
        if m.name in there
    ]
    return [*_WORDS, *metrics, *_WORDS_OF_SPEED]


def _scale(metric: Metric) -> str:
    if metric.unit == "points":
        return "In points."
    best, value = ("High", "value") if metric.higher_is_better else ("Low", "(1 − value)")
    return f"{best} is best; as points 100 × {value}."


_WORDS: tuple[tuple[str, str], ...] = (
    ("ar", "Autoregressive decoding: one causal forward an output token."),
    (
        "selfspec",
        "Self-speculative decoding: the same weights draft a block by block diffusion, then check it "
        "causally; two forwards a round. The first token of a round is ar's own (seed), the last the "
        "verifier's (correction, or bonus after a fully accepted draft).",
    ),
    ("round", "One draft and its verification."),
    ("block size", "Masked positions a draft fills per round."),
    (
        "decode tokens",
        "Output tokens without prefill's own, through the first EOS, which counts once. The numerator "
        "of every figure below.",
    ),
    _counter("tpf_all"),
    _counter("tau_round"),
    _counter(
        "accepted_draft",
        " Drafts accepted after the end of an output count, here and in the histogram: trimming takes "
        "nothing back.",
    ),
    _counter("acceptance_rate"),
    _counter("tau_bonus"),
    (
        "P(≥ j), P(≥ j | ≥ j−1)",
        "The second is the share that accepted draft j, of the rounds that accepted j − 1 and were not cut "
        "before j by EOS or budget (right-censoring). The first, P of at least j, is the running product of "
        "the second up to j (Kaplan-Meier).",
    ),
    _counter("chars_per_forward"),
    _counter("requests_per_forward"),
    (
        "decode-only speedup",
        "Sum of ar's decode times / sum of the strategy's, over pairs. Vision and prefill excluded.",
    ),
    (
        "end-to-end speedup",
        "The same over whole requests; on pages over the whole page, layout and assembly included.",
    ),
    (
        "identical",
        "Equal token ids and stop reason; a text that differs all the same is a difference of class "
        "assembly, counted apart. Pairs in which both arms failed are left out; one "
        "failed arm is a difference.",
    ),
    ("near-tie", "Ids part where a float32 referee sees the two as its top two, no further apart than tau."),
    (
        "points",
        "The scale of every quality in a comparison, a gate and this page: 0 to 100, and 100 is best. Runs "
        "print metrics on their own scale too, with the end that is best beside their name.",
    ),
)
_WORDS_OF_SPEED: tuple[tuple[str, str], ...] = (
    (
        "drift",
        "Least-squares change of the logarithm of the cost ratio per forward, from first to last slot.",
    ),
    (
        "no change seen",
        "The last three of six blocks of pairs agree within 2 %, or as well as their pairs do in 95 of 100 "
        "random orders. Fewer than 24 pairs tell nothing.",
    ),
    (
        "ratio of two runs' speedups",
        "The interval covers the samples alone: another session of the same code can lie outside it. None is "
        "given where a run drifted.",
    ),
    (
        "cost model",
        "Predicted speedup = tau_round / cost of a round in forwards of one row, c(1); residual beside it.",
    ),
)


def measured_how(document: ReportDocument) -> list[str]:
    """How the numbers came about, a sentence each."""
    batches = any_batch(document)
    return [
        *([_TOGETHER] if batches else []),
        f"{_IN_GROUPS if batches else _IN_TURN} in one process with the same weights, stop rule and budget; "
        "a pair never spans two sessions.",
        "A speedup is the sum of ar's times over the sum of the strategy's times, over pairs in which both "
        "succeeded. Ratios of single pairs describe spread and are never the headline.",
        f"Intervals are 95 % {_method(document, batches=batches)} ({document.resamples:,} resamples, seed "
        f"{document.seed}); most groups use 2,000. Composites are computed again inside every resample.",
        "Same text means equal token ids and stop reason, and no other text made of them. Where ids part, a "
        "float32 referee may call a near-tie; without a referee nothing is excused.",
        "Failed samples score worst and stay in every mean. Points run to 100, which is best.",
    ]


_IN_TURN = "Every sample is decoded by ar and by each strategy one after the other, in alternating order,"
_IN_GROUPS = (
    "Crops are taken in groups of up to four of the largest batches, pages one by one: ar and each strategy "
    "decode the whole group, or the page, one after the other, in alternating order,"
)
_TOGETHER = (
    "Requests that decode together share the time of each forward equally. Speed is held against ar at the "
    "same batch size or not at all, text against ar at another where that is missing."
)


def _method(document: ReportDocument, *, batches: bool) -> str:
    over = "over pages" + (", those of times over batches where crops decoded together" if batches else "")
    if document.intervals is None:
        return f"BCa bootstrap intervals {over}"
    return f"bootstrap intervals {over}, {document.intervals}"


OursKey = Literal[
    "decode", "request", "page", "tpf_all", "accepted_draft", "tau_round", "tau_bonus", "identical", "overall"
]


BENCHMARK_PAGES = 1651
"""Pages of OmniDocBench v1.6, which every published Overall in the list is over."""


class PublishedFigure(Record):
    """One figure as its source prints it. `evidence`: P primary, S secondary, A abstract or README."""

    system: str
    source: str
    value: str
    definition: str
    setting: str
    evidence: Literal["P", "S", "A"]
    ours: OursKey | None = None


def published_figures() -> tuple[PublishedFigure, ...]:
    """The shipped list, in its order."""
    with (Path(__file__).parent / "published.toml").open("rb") as file:
        return tuple(PublishedFigure.model_validate(row) for row in tomllib.load(file)["figure"])


def published_table(named: Named | None) -> Table:
    """The list with one strategy's figures of the same definition beside it.

    The caption of a partial or changed copy says what ours were measured on.
    """
    label = named.label if named is not None else "no strategy"
    data = None if named is None else run_data(named.run.protocol)
    caption = "Published figures beside ours"
    if data is not None and not data.whole:
        caption += f"; ours on: {data.label}"
    rows: list[tuple[str | Cell, ...]] = [
        (f.system, f.value, our_figure(named, f.ours), f.definition, f.setting, f"{f.source} [{f.evidence}]")
        for f in published_figures()
    ]
    columns = ("system", "published", f"ours: {label}", "definition", "stack, data, hardware", "source")
    return table(caption, columns, rows, left=frozenset(range(6)))


def our_figure(named: Named | None, key: OursKey | None) -> str:
    """Our figure of that definition; a dash where the run does not measure it.

    `page` needs whole pages and `overall` OmniDocBench's own composite, over all of its pages: crops have
    neither, and of less than the whole benchmark the reason stands in place of the figure.
    """
    if named is None or key is None:
        return NONE
    arm, counters = named.arm, named.part.counters
    if key in {"decode", "request"}:
        return interval(arm.decode if key == "decode" else arm.request, "×")
    if key == "page":
        return interval(arm.page, "×")
    if key == "identical":
        share = arm.identity.share if arm.identity is not None else None
        return NONE if share is None else f"{share:.1%} (token ids)"
    if key == "overall":
        return _overall(named)
    if not counters.draft_offered:
        return NONE
    if key == "tau_bonus":
        return number(None if counters.accepted_draft is None else counters.accepted_draft + 1)
    return interval(arm.counters.get(key))


def _overall(named: Named) -> str:
    level = named.part.levels.get(OVERALL)
    if level is None or SCORER not in str(named.run.identity.get("scorer")).split("+"):
        return NONE
    data = run_data(named.run.protocol)
    if data is None:
        return f"{NONE} (the run does not say which pages it read)"
    if not data.whole:
        return f"{NONE} (not comparable: {data.label})"
    if data.pages_in_run != BENCHMARK_PAGES:
        return f"{NONE} (not comparable: {data.pages_in_run or 0:,} of {BENCHMARK_PAGES:,} pages)"
    return interval(level.points)
