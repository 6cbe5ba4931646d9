"""A referee over any step model: teacher-force the common beginning, read the next token's logits.

Run it in float32. It decides nothing about decoding; it says how close the two candidates were.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic

import torch

from gravbench.backends.registry import open_backend
from gravbench.decoding.protocols import StateT, StepModel
from gravbench.decoding.tracing import TraceRecorder
from gravbench.decoding.window import Needs, Step, Wants, causal_window
from gravbench.errors import NotComparableError, UsageError
from gravbench.protocols import Opinion, TokenGap
from gravbench.records import Request

CHUNK_ROWS = 64


def open_step_model(
    name: str, model: Path | None, *, dtype: str, device: str = "cpu", expected_digest: str | None = None
) -> StepModel[Any]:
    """The step model of backend `name`, for passes outside decoding.

    `UsageError` if it has none; `NotComparableError` if the checkpoint is not the expected one.
    """
    backend = open_backend(name, model=model, dtype=dtype, device=device)
    digest = backend.describe().model_digest
    if expected_digest is not None and digest != expected_digest:
        raise NotComparableError(
            f"the referee's model has digest {digest[:12]}, the run was made with {expected_digest[:12]}",
            hint="Give the checkpoint the run was made with.",
        )
    step_model: StepModel[Any] | None = getattr(backend, "step_model", None)
    if step_model is None:
        raise UsageError(
            f"backend '{name}' gives no logits, so it cannot referee",
            hint="Referee a run of a backend that decodes in this process.",
        )
    return step_model


class StepModelReferee(Generic[StateT]):
    """`request_of` maps a sample id to the request both arms answered."""

    def __init__(self, model: StepModel[StateT], request_of: Callable[[str], Request]) -> None:
        self._model = model
        self._request_of = request_of

    def judge(self, sample_id: str, prefix: tuple[int, ...], *, base_id: int, own_id: int) -> Opinion:
        logits = next_logits(self._model, self._request_of(sample_id), prefix)
        top = logits.topk(2)
        values = top.values.tolist()
        first, second = top.indices.tolist()
        return Opinion(
            gap=values[0] - values[1],
            top_ids=(first, second),
            base_rank=_rank(logits, base_id),
            own_rank=_rank(logits, own_id),
        )


def next_logits(
    model: StepModel[StateT], request: Request, prefix: Sequence[int], *, rows: int = CHUNK_ROWS
) -> torch.Tensor:
    """Causal logits [V], as float32 on the CPU, of the token after `prefix`, fed in windows of `rows`."""
    with torch.inference_mode():
        trace = TraceRecorder(lambda: 0)
        model.expect(1, Needs(rows_max=rows))
        state, seen = model.prefill(request, budget=len(prefix) + 1, trace=trace)
        try:
            logits = seen.logits()[-1]
            for start in range(0, len(prefix), rows):
                piece = tuple(prefix[start : start + rows])
                reply = model.forward(
                    [state], [Step("verify", causal_window(piece), Wants((len(piece) - 1,)))]
                )
                logits = reply.logits[-1]
                model.keep(state, len(piece))
            return logits.float().cpu().clone()
        finally:
            model.release(state)


def token_gaps(
    model: StepModel[StateT], request: Request, ids: Sequence[int], *, rows: int = CHUNK_ROWS
) -> list[TokenGap]:
    """Distance of each of `ids` from the argmax behind those before it: one pass, in windows of `rows`."""
    found: list[TokenGap] = []
    with torch.inference_mode():
        model.expect(1, Needs(rows_max=rows))
        state, seen = model.prefill(request, budget=len(ids) + 1, trace=TraceRecorder(lambda: 0))
        try:
            found += _gaps(seen.logits()[-1:], ids[:1])
            for start in range(0, len(ids) - 1, rows):
                piece = tuple(ids[start : min(start + rows, len(ids) - 1)])
                reply = model.forward([state], [Step("verify", causal_window(piece))])
                found += _gaps(reply.logits, ids[start + 1 : start + 1 + len(piece)])
                model.keep(state, len(piece))
        finally:
            model.release(state)
    return found


def _gaps(logits: torch.Tensor, ids: Sequence[int]) -> list[TokenGap]:
    """`logits` [Q, V], a row for each of the Q `ids`."""
    values = logits.float().cpu()
    best, own = values.max(-1), values.gather(-1, torch.tensor(ids).unsqueeze(-1)).squeeze(-1)
    gaps = (best.values - own).tolist()
    return [TokenGap(gap, top) for gap, top in zip(gaps, best.indices.tolist(), strict=True)]


def measured_tau(
    running: StepModel[StateT],
    exact: StepModel[StateT],
    request_of: Callable[[str], Request],
    outputs: Mapping[str, Sequence[int]],
    *,
    window_rows: int,
    quantile: float = 0.999,
) -> float:
    """Noise of the top-two gap in the precision of a run: `quantile` of |its gap - the exact gap|.

    `running` reads every position of `outputs` twice, with one row and with `window_rows` rows; `exact` is
    the float32 referee's model. Where passes rank the same two tokens, gaps are compared; 0.0 when there is
    none. Two passes can only disagree where the exact gap is within this noise.
    """
    differences = [
        difference
        for sample_id in sorted(outputs)
        for rows in (1, window_rows)
        for difference in _gap_differences(
            (running, rows), (exact, window_rows), request_of(sample_id), outputs[sample_id]
        )
    ]
    if not differences:
        return 0.0
    return float(torch.tensor(differences, dtype=torch.float64).quantile(quantile))


def _gap_differences(
    one: tuple[StepModel[StateT], int],
    other: tuple[StepModel[StateT], int],
    request: Request,
    ids: Sequence[int],
) -> list[float]:
    passes = (_all_top_two(model, request, ids, rows=rows) for model, rows in (one, other))
    return [abs(a[0] - b[0]) for a, b in zip(*passes, strict=True) if set(a[1]) == set(b[1])]


def _all_top_two(
    model: StepModel[StateT], request: Request, ids: Sequence[int], *, rows: int
) -> list[tuple[float, tuple[int, int]]]:
    found: list[tuple[float, tuple[int, int]]] = []
    with torch.inference_mode():
        trace = TraceRecorder(lambda: 0)
        model.expect(1, Needs(rows_max=rows))
        state, _ = model.prefill(request, budget=len(ids) + 1, trace=trace)
        try:
            for start in range(0, len(ids), rows):
                piece = tuple(ids[start : start + rows])
                reply = model.forward([state], [Step("verify", causal_window(piece))])
                top = reply.logits.float().topk(2, dim=-1)
                for values, indices in zip(top.values.tolist(), top.indices.tolist(), strict=True):
                    found.append((values[0] - values[1], (indices[0], indices[1])))
                model.keep(state, len(piece))
        finally:
            model.release(state)
    return found


def _rank(logits: torch.Tensor, token: int) -> int:
    return int((logits > logits[token]).sum()) + 1
