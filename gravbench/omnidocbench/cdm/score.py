"""CDM of formula pairs: strip, tokenise, render what is not known yet, match.

Every distinct coloured source is rendered once, however many pairs or runs ask for it.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from gravbench.errors import EngineError
from gravbench.omnidocbench.cdm.match import Counts, Glyphs, match, visible
from gravbench.omnidocbench.cdm.raster import Boxes
from gravbench.omnidocbench.cdm.render import Engine, Rendering, Source, Steps, render
from gravbench.omnidocbench.cdm.tokenise import Tokenised, tokenise
from gravbench.omnidocbench.cdm.tools import (
    Limits,
    Tools,
    find_tools,
    install_command,
    installation,
    missing_packages,
)
from gravbench.omnidocbench.formula_text import cdm_spelling
from gravbench.omnidocbench.result_cache import DEFAULT_MAX_BYTES, Cache, digest_key

_HALF_PAIR = re.compile("[\ud800-\udfff]")
RECIPE = "2"
"""Raised whenever a score or a rendering can change; part of every cache key and of the signature."""
CHUNK = 400
"""Renderings of one job: enough to make program starts cheap, few enough to keep memory small."""


@dataclass(frozen=True)
class CdmPair:
    """Two formulas without delimiters and tags. `pred_alt` is scored as well, and the better counts."""

    gt: str
    pred: str
    pred_alt: str | None = None

    @classmethod
    def of(cls, gt: str, pred: str, pred_alt: str | None = None) -> CdmPair:
        """Formulas as they stand in the data: fences of predictions, `$`, `\\[ \\]` and tags go."""
        alternative = cdm_spelling(pred_alt, fenced=True) if pred_alt else None
        return cls(cdm_spelling(gt), cdm_spelling(pred, fenced=True), alternative)


@dataclass(frozen=True)
class CdmResult:
    """CDM of one pair. All values 0 when a side cannot be rendered; `reason` then says which and why."""

    recall: float
    precision: float
    f1: float
    """0..1, higher is better; each of the three rounded to three decimals per formula, as published."""
    tp: int
    gt_tokens: int
    pred_tokens: int
    """Tokens with pixels on either side."""
    reason: str | None = None
    flags: tuple[str, ...] = ()
    """`alt`: the second prediction counted. `raw-gt`, `raw-pred`: rendered as written because it cannot be
    parsed. `limit: ...`: ended by that limit, so another machine may see more. `machine`: a side could not be
    rendered for a fault of this machine."""

    @property
    def machine(self) -> bool:
        """A fault of this machine made it what it is; mended, the same pair may score otherwise."""
        return "machine" in self.flags


def signature(tools: Tools) -> str:
    """Every choice that can move a CDM value, the renderer's versions included."""
    renderer = f"{tools.pdflatex_version}+gs {tools.gs_version}"
    return f"cdm|tokens:omnidoc1.6|dpi:200|renderer:{renderer}|agg:mean|v:{RECIPE}"


def score_pairs(
    pairs: Sequence[CdmPair],
    *,
    cache_dir: Path,
    workers: int = 1,
    search_path: str | None = None,
    limits: Limits | None = None,
    max_cache_bytes: int = DEFAULT_MAX_BYTES,
    progress: Callable[[int, int], None] | None = None,
) -> list[CdmResult]:
    """CDM of every pair, in order. One formula that fails costs only itself and carries its reason.

    Args:
        cache_dir: shared by any number of processes; may be deleted at any time.
        workers: rendering jobs at a time; results do not depend on it.
        search_path: where to look for pdflatex and gs instead of PATH.
        progress: called with (renderings done, renderings in all), at first with 0.

    Raises:
        EngineError: a program is missing; the hint is the command that installs it.
    """
    tools = find_tools(search_path=search_path, memo_dir=cache_dir)
    cache = Cache(cache_dir, max_bytes=max_cache_bytes)
    engine = Engine(tools.pdflatex, tools.gs, limits or Limits())
    scorer = _Scorer(engine, cache, f"{signature(tools)} {installation(tools)}", workers, progress)
    results = scorer.score(pairs)
    if cache.written:
        cache.trim()
    return results


@dataclass(frozen=True)
class Side:
    """One formula, tokenised, and the source to render; without a source, the problem that forbids one."""

    tokenised: Tokenised
    source: Source | None
    problem: str | None = None


@dataclass
class _Scorer:
    engine: Engine
    cache: Cache
    signature: str
    workers: int
    progress: Callable[[int, int], None] | None = None
    sides: dict[str, Side] = field(default_factory=dict)
    renderings: dict[Source, Rendering] = field(default_factory=dict)

    def score(self, pairs: Sequence[CdmPair]) -> list[CdmResult]:
        results: dict[CdmPair, CdmResult] = {}
        fresh: list[CdmPair] = []
        for pair in dict.fromkeys(pairs):
            known = self._known_result(pair)
            if known is None:
                fresh.append(pair)
            else:
                results[pair] = known
        self._prepare(fresh)
        for pair in fresh:
            results[pair] = self._score_pair(pair)
        return [results[pair] for pair in pairs]

    # --- rendering ---------------------------------------------------------------------------------------

    def _prepare(self, pairs: Sequence[CdmPair]) -> None:
        """Tokenise every formula and render every source not rendered before."""
        for formula in dict.fromkeys(formula for pair in pairs for formula in _formulas(pair)):
            self.sides[formula] = side_of(formula)
        wanted = dict.fromkeys(side.source for side in self.sides.values() if side.source)
        unknown = []
        for source in wanted:
            rendering = self._known_rendering(source)
            if rendering is None:
                unknown.append(source)
            else:
                self.renderings[source] = rendering
        size = min(CHUNK, -(-len(unknown) // max(1, self.workers))) or 1
        chunks = [unknown[at : at + size] for at in range(0, len(unknown), size)]
        if chunks:
            scratch = Path(tempfile.mkdtemp(prefix="gravbench-cdm-"))
            try:
                with ThreadPoolExecutor(max(1, self.workers)) as pool:
                    steps = Steps(len(unknown), self.progress)
                    jobs = [pool.submit(self._render_chunk, chunk, scratch, steps) for chunk in chunks]
                    for job in jobs:
                        job.result()
            finally:
                shutil.rmtree(scratch, ignore_errors=True)

    def _render_chunk(self, chunk: Sequence[Source], scratch: Path, steps: Steps) -> None:
        with steps.of(len(chunk)) as step:
            found = render(chunk, engine=self.engine, scratch=scratch, step=step)
        for source, rendering in zip(chunk, found, strict=True):
            self.renderings[source] = rendering
            if rendering.boxes is not None and rendering.lasting:
                kept = {name: value for name, value in asdict(rendering).items() if name != "ink"}
                self.cache.put(self._rendering_key(source), orjson.dumps(kept))

    # --- matching ----------------------------------------------------------------------------------------

    def _score_pair(self, pair: CdmPair) -> CdmResult:
        gt, *preds = _formulas(pair)
        best = self._score_formulas(gt, preds[0])
        for alternative in preds[1:]:
            other = self._score_formulas(gt, alternative)
            if other.f1 > best.f1:
                best = CdmResult(**{**_fields(other), "flags": tuple(sorted((*other.flags, "alt")))})
        if all(self._is_drawn(formula) for formula in (gt, *preds)):
            self.cache.put(self._pair_key(pair), orjson.dumps(_fields(best)))
        return best

    def _score_formulas(self, gt: str, pred: str) -> CdmResult:
        glyphs: list[Glyphs | None] = []
        flags: list[str] = []
        reason: str | None = None
        for name, formula in (("gt", gt), ("pred", pred)):
            side = self.sides[formula]
            rendering = self._rendering(side)
            seen = None
            if rendering.boxes is not None:
                seen = visible(side.tokenised.tokens, rendering.boxes)
            glyphs.append(seen)
            problem = rendering.problem or (None if seen and seen.tokens else "no visible token")
            if problem and reason is None:
                reason = f"{name}: {problem}"
            if formula and side.tokenised.raw:
                flags.append(f"raw-{name}")
            if not rendering.lasting:
                flags.append("machine")
            if rendering.limit:
                flags.append(f"limit: {rendering.limit}")
        counts = match(*glyphs)
        return _result(counts, reason, flags)

    def _rendering(self, side: Side) -> Rendering:
        if side.source is None:
            return Rendering(None, side.problem)
        return self.renderings[side.source]

    def _is_drawn(self, formula: str) -> bool:
        """Only what was drawn is kept: whatever went wrong may go right on the same machine, mended."""
        rendering = self._rendering(self.sides[formula])
        return rendering.boxes is not None and rendering.lasting

    # --- cache -------------------------------------------------------------------------------------------

    def _known_result(self, pair: CdmPair) -> CdmResult | None:
        content = self.cache.get(self._pair_key(pair))
        if content is None:
            return None
        loaded: dict[str, Any] = orjson.loads(content)
        return CdmResult(**{**loaded, "flags": tuple(loaded["flags"])})

    def _known_rendering(self, source: Source) -> Rendering | None:
        content = self.cache.get(self._rendering_key(source))
        if content is None:
            return None
        loaded: dict[str, Any] = orjson.loads(content)
        boxes = loaded.pop("boxes")
        if boxes is not None:
            found = tuple(None if box is None else tuple(box) for box in boxes["boxes"])
            boxes = Boxes(boxes["width"], boxes["height"], found)
        return Rendering(boxes, **loaded)

    def _pair_key(self, pair: CdmPair) -> str:
        alternative = () if pair.pred_alt is None else (pair.pred_alt,)
        return digest_key("pair", self.signature, pair.gt, pair.pred, *alternative)

    def _rendering_key(self, source: Source) -> str:
        counts = f"{source.tokens} {source.colours}"
        return digest_key("rendering", self.signature, source.template, counts, source.body)


def _formulas(pair: CdmPair) -> list[str]:
    """Ground truth, prediction, and the second prediction if there is one."""
    return [pair.gt, pair.pred, *([pair.pred_alt] if pair.pred_alt else [])]


def side_of(formula: str) -> Side:
    """A formula ready to be rendered, or why it cannot be."""
    tokenised = tokenise(formula)
    painted = tokenised.painted
    if painted is None:
        return Side(tokenised, None, f"brackets cannot be resolved ({tokenised.problem})")
    if _HALF_PAIR.search(painted.body):
        return Side(tokenised, None, "half a surrogate pair, which no file can hold")
    source = Source(painted.body, tokenised.template, len(painted.tokens), painted.colours)
    return Side(tokenised, source)


def _fields(result: CdmResult) -> dict[str, Any]:
    return {name: getattr(result, name) for name in CdmResult.__dataclass_fields__}


def _result(counts: Counts, reason: str | None, flags: Sequence[str]) -> CdmResult:
    return CdmResult(
        recall=counts.recall,
        precision=counts.precision,
        f1=counts.f1,
        tp=counts.tp,
        gt_tokens=counts.gt_tokens,
        pred_tokens=counts.pred_tokens,
        reason=reason,
        flags=tuple(sorted(set(flags))),
    )


SAME = r"\frac{a}{b}+\sqrt{x_{1}}"
SAME_CJK = r"面积=长\times 宽"
KNOWN = (r"\frac{a}{b}", "a/b", 0.667)
"""Formula, prediction and CDM of the pair that must not give 1."""


@dataclass(frozen=True)
class CdmToolStatus:
    """`available` is False when CDM must not be scored; `reason` and `hint` then say why and what to do."""

    available: bool
    reason: str | None = None
    hint: str | None = None
    missing_packages: tuple[str, ...] = ()
    """Debian packages to install, exact names; empty when nothing is known to be missing."""
    versions: tuple[tuple[str, str], ...] = ()
    signature: str | None = None


def check_tools(
    *, search_path: str | None = None, limits: Limits | None = None, memo_dir: Path | None = None
) -> CdmToolStatus:
    """Find the tools and render the known pairs. Never raises; takes about a second.

    With `memo_dir` a passed check is remembered there until the installation changes; a failed one is not.
    """
    try:
        tools = find_tools(search_path=search_path, memo_dir=memo_dir)
    except EngineError as error:
        return CdmToolStatus(False, error.message, error.hint, _packages_of(error))
    versions = tuple(sorted(tools.versions.items()))
    memo = Cache(memo_dir) if memo_dir else None
    passed = digest_key("check", signature(tools), installation(tools))
    reason = None
    if memo is None or memo.get(passed) is None:
        reason = _rendering_fault(search_path, limits)
        if reason is None and memo is not None:
            memo.put(passed, b"passed")
    if reason is None:
        return CdmToolStatus(True, versions=versions, signature=signature(tools))
    absent = missing_packages(tools)
    return CdmToolStatus(False, reason, _hint(absent), absent, versions)


def _packages_of(error: EngineError) -> tuple[str, ...]:
    return tuple(word for word in (error.hint or "").split()[3:])


def _hint(absent: tuple[str, ...]) -> str:
    if absent:
        return install_command(absent)
    return "reinstall the tools: " + install_command()


def _rendering_fault(search_path: str | None, limits: Limits | None) -> str | None:
    """What is wrong with the renderings; `None` when every known value comes out."""
    known_gt, known_pred, known_value = KNOWN
    expected = ((SAME, SAME, 1.0), (SAME_CJK, SAME_CJK, 1.0), (known_gt, known_pred, known_value))
    with tempfile.TemporaryDirectory(prefix="gravbench-cdm-check-") as folder:
        try:
            results = score_pairs(
                [CdmPair(gt, pred) for gt, pred, _ in expected],
                cache_dir=Path(folder),
                search_path=search_path,
                limits=limits,
            )
        except OSError as error:
            return f"the check could not run: {error}"
    for (gt, pred, value), result in zip(expected, results, strict=True):
        if abs(result.f1 - value) > 1e-9:
            return _describe(gt, pred, value, result)
    return None


def _describe(gt: str, pred: str, value: float, result: CdmResult) -> str:
    kind = "an identical pair" if gt == pred else "a known pair"
    why = f" ({result.reason})" if result.reason else ""
    return f"{kind} scores {result.f1} instead of {value}: {gt!r} against {pred!r}{why}"
