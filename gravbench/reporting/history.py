"""Runs of one suite over commits: quality, accepted tokens and in-run speedup, with the gate's verdicts.

A value that cannot be held against those of the newest run is not drawn, and the page says why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from gravbench.analysis.bootstrap import Interval
from gravbench.analysis.quality import composites, label_of
from gravbench.analysis.run_analysis import ArmAnalysis
from gravbench.arms import is_ar
from gravbench.errors import DataError
from gravbench.reporting import plots
from gravbench.reporting.charts import MAX_SERIES, Chart, Line, described, interval_lines, main_metric
from gravbench.reporting.document import ArmPart, GatePart, RunPart
from gravbench.reporting.html import TEMPLATES, content_policy, page_environment
from gravbench.reporting.tables import Cell, Table, arm, interval, number, table

QUESTION = ("suite", "suite_version", "suite_sha", "samples_sha", "scorer", "references_sha")
"""Fields of a run's identity in which runs of one history agree."""
SPEED_CONDITIONS = ("backend", "device", "dtype", "threads")
"""Fields in which runs agree whose speedups stand in one curve."""
COMMIT_LETTERS = 9
MAX_TICKS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A run, and where it lay: a folder or a published document."""

    place: str
    run: RunPart

    @property
    def git(self) -> Mapping[str, Any]:
        """Commit, its date and the hash of what was not committed; empty for an installed package."""
        git = self.run.environment.get("git")
        return git if isinstance(git, dict) else {}

    @property
    def when(self) -> tuple[str, str]:
        """What the order is made of: the commit's date if it was recorded, and when the run began."""
        begun = self.run.created_utc
        return str(self.git.get("committed_utc") or begun), begun

    @property
    def commit(self) -> str:
        """First letters of the commit, a plus behind them where the tree was changed; else the version."""
        if not self.git:
            return f"v{self.run.identity.get('gravbench')}"
        return str(self.git.get("commit"))[:COMMIT_LETTERS] + "+" * bool(self.git.get("dirty_diff_sha"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Omitted:
    """A run, file or single value that is not shown, and why."""

    what: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What one strategy did in one run; a quantity is `None` where it was not measured or is hidden."""

    at: int
    found: Found
    arm: str
    quality: Interval | None
    accepted: Interval | None
    speedup: Interval | None
    remarks: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class History:
    """Runs in order, oldest first, every strategy of each, and what was left out or hidden."""

    runs: tuple[Found, ...]
    metric: str | None
    """What `quality` is points of; `None` where nothing was scored."""
    points: list[Point] = field(default_factory=list)
    omitted: list[Omitted] = field(default_factory=list)


def build_history(found: Sequence[Found], omitted: Sequence[Omitted] = ()) -> History:
    """The runs that answer one question: that of most, and among equally many that of the newest.

    Ordered by the date of the commit, where a run records none by the time it began. `DataError` without any.
    """
    ordered = sorted(found, key=lambda one: (*one.when, one.place))
    if not ordered:
        said = "".join(f"\n  {one.what}: {one.reason}" for one in omitted[:5])
        raise DataError(f"no finished run to make a history of{said}", hint="Name a folder that holds runs.")
    counts = Counter(map(_question, ordered))
    asked = max(reversed(ordered), key=lambda one: counts[_question(one)])
    history = History(runs=(), metric=None, omitted=list(omitted))
    kept: dict[str, Found] = {}
    for one in ordered:
        if _question(one) != _question(asked):
            history.omitted.append(Omitted(what=one.place, reason=_unlike(one, asked)))
        elif one.run.run_id in kept:
            same = kept[one.run.run_id].place
            history.omitted.append(Omitted(what=one.place, reason=f"the same run as {same}"))
        else:
            kept[one.run.run_id] = one
    history.runs = tuple(kept.values())
    newest = history.runs[-1]
    history.metric = main_metric(metric for part in newest.run.arms for metric in part.levels)
    for at, one in enumerate(history.runs):
        before = history.runs[at - 1] if at else None
        if one.run.gate is not None and one.run.gate.outcome == "not-comparable" and one.run.gate.problems:
            reason = "; ".join(one.run.gate.problems)
            history.omitted.append(Omitted(what=f"{one.place}: verdict of the gate", reason=reason))
        for part, own in zip(one.run.arms, one.run.analysis.arms, strict=True):
            history.points.append(_point(history, at, part, own, before))
    return history


def _question(found: Found) -> tuple[str, ...]:
    return tuple(str(found.run.identity.get(name)) for name in QUESTION)


def _unlike(own: Found, asked: Found) -> str:
    pairs = zip(QUESTION, _question(own), _question(asked), strict=True)
    found = [f"{name} is {a[:16]}, not {b[:16]}" for name, a, b in pairs if a != b]
    return found[0] if own.run.identity.get("suite") != asked.run.identity.get("suite") else "; ".join(found)


def _point(history: History, at: int, part: ArmPart, own: ArmAnalysis, before: Found | None) -> Point:
    found, newest, metric = history.runs[at], history.runs[-1], history.metric
    level = part.levels.get(metric) if metric is not None else None
    drafts = own.counters.get("accepted_draft") if part.counters.draft_offered else None
    reasons = {
        "quality": _no_quality(found, newest, metric, level is not None),
        "accepted": None if is_ar(part.arm) or drafts else "the engine told no drafts",
        "speedup": None if is_ar(part.arm) else _no_speedup(found, newest, own),
    }
    for name, reason in reasons.items():
        if reason is not None:
            what = f"{found.place}, {part.arm}: {QUANTITIES[name]}"
            history.omitted.append(Omitted(what=what, reason=reason))
    return Point(
        at=at,
        found=found,
        arm=part.arm,
        quality=level.points if level is not None and reasons["quality"] is None else None,
        accepted=drafts,
        speedup=None if is_ar(part.arm) or reasons["speedup"] else own.decode,
        remarks=tuple(_remarks(found, before, own)),
    )


QUANTITIES = {"quality": "quality", "accepted": "accepted_draft", "speedup": "decode speedup"}


def _no_quality(found: Found, newest: Found, metric: str | None, scored: bool) -> str | None:
    """Why the quality of a run is not in the curve."""
    if metric is None or not scored:
        return "not scored"
    parts = composites()[metric].parts if metric in composites() else (metric,)
    for part in parts:
        own, theirs = found.run.signatures.get(part), newest.run.signatures.get(part)
        if own != theirs:
            return f"{label_of(part)} was scored as {own}, in the newest run as {theirs}"
    return None


def _no_speedup(found: Found, newest: Found, own: ArmAnalysis) -> str | None:
    """Why the speedup of a strategy is not in the curve."""
    if own.decode is None:
        return "no times of it and of ar at its batch size"
    for name in SPEED_CONDITIONS:
        a, b = found.run.identity.get(name), newest.run.identity.get(name)
        if a != b:
            return f"{name} is {a}, in the newest run {b}"
    return None


def _remarks(found: Found, before: Found | None, own: ArmAnalysis) -> Iterable[str]:
    if before is not None:
        if found.run.identity.get("model_digest") != before.run.identity.get("model_digest"):
            yield "other weights than before"
        if found.run.environment.get("host_sha") != before.run.environment.get("host_sha"):
            yield "another machine than before"
    if own.failed:
        yield f"{own.failed} of {own.n} failed"
    if own.identity is not None and own.identity.faults:
        yield f"{own.identity.faults} outputs differ from {own.base}"
    if own.steadiness is not None and not own.steadiness.steady:
        yield "the machine did not hold still"


def verdict_of(gate: GatePart | None) -> Cell:
    """The gate's word on a run, with the rules that failed or could not be judged."""
    if gate is None or gate.outcome is None:
        return Cell(text="not gated")
    bad = [f"{row.arm} {row.rule}" for row in gate.rows if row.status in {"fail", "missing"}]
    word = {"pass": "pass", "fail": "FAIL", "not-comparable": "not comparable"}[gate.outcome]
    tail = f": {'; '.join(bad[:4])}{f' and {len(bad) - 4} more' if len(bad) > 4 else ''}" if bad else ""
    return Cell(text=word + tail, tint=1 if gate.outcome == "pass" else -3)


def history_claim(history: History) -> str:
    """How the newest run's fastest strategy came to where it is, and what the gate said, in words."""
    last = [p for p in history.points if p.at == len(history.runs) - 1]
    shown = [p for p in last if not is_ar(p.arm)] or last
    best = max(shown, key=lambda p: p.speedup.value if p.speedup is not None else 0.0)
    own = [p for p in history.points if p.arm == best.arm]
    label = label_of(history.metric) if history.metric is not None else "quality"
    parts = (
        _course(f"{label} ", [p.quality for p in own], " points"),
        _course("accepted_draft ", [p.accepted for p in own], ""),
        _course("decode speedup ", [p.speedup for p in own], "×"),
    )
    count = f"{len(history.runs)} run{'' if len(history.runs) == 1 else 's'}"
    said = "; ".join(part for part in parts if part) or "nothing measured"
    gates = Counter(verdict_of(one.run.gate).text.partition(":")[0] for one in history.runs)
    verdicts = ", ".join(f"{n} {word}" for word, n in sorted(gates.items()))
    return f"{best.arm} over {count}: {said}. Gate: {verdicts}."


def _course(name: str, values: Sequence[Interval | None], unit: str) -> str:
    """`decode speedup 1.43 → 1.45×`: the first and the last value there is."""
    known = [value.value for value in values if value is not None]
    if not known:
        return ""
    first = f"{number(known[0])} → " if len(known) > 1 else ""
    return f"{name}{first}{number(known[-1])}{unit}"


def history_charts(history: History) -> list[Chart]:
    """One curve a quantity, a line a strategy; the first `MAX_SERIES` of the newest run."""
    label = label_of(history.metric) if history.metric is not None else "quality"
    return [
        _chart(history, "quality", f"Quality: {label}", "points, 100 is best", lambda p: p.quality),
        _chart(history, "accepted", "Accepted tokens", "accepted draft tokens a round", lambda p: p.accepted),
        _chart(history, "speedup", "Speedup within each run", "decode speedup over ar", lambda p: p.speedup),
    ]


def _chart(
    history: History, key: str, title: str, y_label: str, value_of: Callable[[Point], Interval | None]
) -> Chart:
    arms = list(dict.fromkeys(p.arm for p in reversed(history.points) if value_of(p) is not None))[::-1]
    lines: list[Line] = []
    for name in arms[-MAX_SERIES:]:
        own = [(p.at, value) for p in history.points if p.arm == name and (value := value_of(p)) is not None]
        lines += interval_lines(name, [at for at, _ in own], [value for _, value in own])
    every = -(-len(history.runs) // MAX_TICKS)
    ticks = [
        one.commit + " ✗" * _failed(one) if at % every == 0 else "" for at, one in enumerate(history.runs)
    ]
    drawn = plots.line_chart(
        lines,
        key=f"history-{key}",
        title=title,
        description=described(f"{title} by run, oldest first", lines),
        x_label="commit, oldest first",
        y_label=y_label,
        ticks=ticks,
        level=1.0 if key == "speedup" else None,
    )
    more = f" {len(arms) - MAX_SERIES} more strategies are in the table." if len(arms) > MAX_SERIES else ""
    note = (
        f"With the 95% interval of each run.{' ✗: the gate failed.' * any(map(_failed, history.runs))}{more}"
    )
    return Chart(key=key, title=title, note=note, svg=drawn if lines else None, table=None)


def _failed(found: Found) -> bool:
    return found.run.gate is not None and found.run.gate.outcome == "fail"


def history_table(history: History) -> Table:
    """A row a run and strategy, newest run first; what is the same for a run stands in its first row."""
    rows: list[tuple[str | Cell, ...]] = []
    for at in reversed(range(len(history.runs))):
        found = history.runs[at]
        facts: tuple[str | Cell, ...] = (found.commit, found.when[0][:10])
        gate = verdict_of(found.run.gate)
        for point in (p for p in history.points if p.at == at):
            values = (interval(v) for v in (point.quality, point.accepted))
            row = (*facts, arm(point.arm), *values, interval(point.speedup, "×"), "; ".join(point.remarks))
            rows.append((found.place, *row, gate))
            facts, gate = ("", ""), Cell(text="")
    label = label_of(history.metric) if history.metric is not None else "quality"
    columns = (
        "run",
        "commit",
        "date",
        "strategy",
        f"{label}, points [95 %]",
        "accepted_draft [95 %]",
        "decode speedup [95 %]",
        "remarks",
        "gate",
    )
    return table("Every run, newest first", columns, rows, left=frozenset({0, 1, 3, 7, 8}))


def render_history(history: History, *, title: str, commands: Sequence[str], version: str) -> str:
    """One self-contained page; equal histories give equal text."""
    style = Markup((TEMPLATES / "report.css").read_text("utf-8"))
    omitted = [(one.what, one.reason) for one in history.omitted]
    page = (
        page_environment()
        .get_template("history.html.j2")
        .render(
            title=title,
            style=style,
            policy=content_policy(style),
            claim=history_claim(history),
            charts=history_charts(history),
            tables=[
                history_table(history),
                *(
                    [table("Left out or hidden", ("what", "why"), omitted, left=frozenset({0, 1}))]
                    if omitted
                    else []
                ),
            ],
            conditions=_conditions(history),
            commands=commands,
            version=version,
        )
    )
    return page + "\n"


def _conditions(history: History) -> str:
    """What all runs share, and how they are ordered."""
    newest, dated = history.runs[-1].run, sum("committed_utc" in one.git for one in history.runs)
    order = (
        "date of the commit" if dated == len(history.runs) else "date of the commit, else start of the run"
    )
    identity = newest.identity
    parts = (
        f"{identity.get('suite')} v{identity.get('suite_version')}",
        f"{newest.analysis.n_samples} samples",
        str(identity.get("scorer")),
        f"newest run: {newest.model.get('model')}, {identity.get('device')}, {identity.get('dtype')}",
        f"ordered by {order if dated else 'start of the run'}",
    )
    return " · ".join(parts)
