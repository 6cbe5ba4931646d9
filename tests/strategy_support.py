"""What every exact strategy must show (decoding without any change of the tokens of AR), in one place each.

A test of a strategy calls these with its arm; what is particular to it stands in its own file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from gravbench.backends.glm.step_model import GlmStepModel
from gravbench.backends.toy import EOS, ToyModel, ToyTable
from gravbench.backends.transformers_local import TransformersLocal
from gravbench.decoding.answers import draw_of
from gravbench.decoding.decode_loop import Decoded, Job, decode_jobs, decode_request
from gravbench.decoding.protocols import Lane, ModelInfo, Round, Strategy
from gravbench.decoding.setting import Setting, setting_json
from gravbench.decoding.strategies import parse_strategy
from gravbench.decoding.tracing import TraceRecorder
from gravbench.decoding.window import Needs, Step, causal_window
from gravbench.records import DecodeConfig, Request, Rounds, Task, Trace

LONG = tuple(2 + i * 7 % 90 for i in range(90))

ARMS = {
    "selfspec1:block=4": 6,
    "selfspec1:block=3,groups=all": 5,
    "selfspec1:block=4,groups=auto,least=0.3": 6,
    "edit:block=4": 7,
    "edit:block=3,passes=4": 8,
    "edit:below=9,block=4,passes=auto,sure=0": 8,
    "repair:alternatives=2,block=4,floor=0,nodes=12,points=3": 6,
    "tree:block=4,branch=3,budget=auto,nodes=15": 6,
    "tree:block=4,branch=2,nodes=7": 6,
    "lookup:shortest=1,tokens=4": 5,
    "adaptive:block=5,explore=2,memory=0.5": 7,
    "stream:tau=9,window=5": 6,
    "stream:window=4": 5,
    "diffuspec:block=5,least=1": 7,
    "lookup:match=suffix,prompt=1,shortest=1,tokens=5": 6,
    "hsd:match=2,nodes=9,suffix=6,texts=PATH": 8,
    "selfspec:block=5,verify=2": 4,
    "mtp:steps=4": 5,
    "tuned:setting=SETTING": 7,
}
"""Arms of every exact strategy but `ar` and `selfspec` -> tokens that a round commits at most."""


def setting(plan: Mapping[Task, str], **changes: object) -> bytes:
    """A setting file of the toy."""
    own = {
        "gravbench": "0",
        "created_utc": "2026-01-01T00:00:00+00:00",
        "model": "toy",
        "model_digest": "0" * 64,
        "machine": {"backend": "toy", "engine": "table", "device": "cpu", "dtype": "float32", "threads": 1},
        "suite": "crops-tune",
        "suite_sha": "0" * 64,
        "n_samples": 1,
        "plan": dict(plan),
        "batch": 1,
        "forward_cost": {1: 1.0, 9: 1.5, 33: 2.0},
        "estimates": [],
    }
    return setting_json(Setting.model_validate(own | changes))


def with_files(arm: str, texts: Path) -> str:
    """The arm with its texts, and with a setting that lies beside them."""
    path = texts.parent / "setting.json"
    if "SETTING" in arm and not path.exists():
        path.write_bytes(
            setting({"text": "adaptive:block=5,explore=2", "table": "ar", "formula": "tree:block=4,nodes=7"})
        )
    return arm.replace("PATH", str(texts)).replace("SETTING", str(path))


def on_toy(
    script: Sequence[int], arm: str, *, budget: int = 1000, **table: object
) -> tuple[Decoded, Trace, Rounds]:
    """One answer of the toy, with its trace."""
    ((decoded, trace),) = together([tuple(script)], arm, budgets=[budget], batch=1, **table)
    assert trace.rounds is not None
    return decoded, trace, trace.rounds


def together(
    scripts: Sequence[tuple[int, ...]], arm: str, *, budgets: Sequence[int], batch: int, **table: object
) -> list[tuple[Decoded, Trace]]:
    """Answers of the toy to several scripts that decode together."""
    by_name = {str(i): script for i, script in enumerate(scripts)}
    model = ToyModel(
        ToyTable.model_validate({"wrong_positions": (), **table}),
        script_of=lambda ask: by_name[ask.sample_id],
    )
    jobs = [
        Job(
            request=Request(
                request_id=name, sample_id=name, task="text", image_path="none", max_new_tokens=1
            ),
            budget=budget,
            trace=TraceRecorder(lambda: 0),
            draw=draw_of(arm),
        )
        for name, budget in zip(by_name, budgets, strict=True)
    ]
    found = []
    for job, answer in zip(
        jobs, decode_jobs(model, jobs, strategy=parse_strategy(arm), batch=batch), strict=True
    ):
        assert isinstance(answer, Decoded)
        found.append((answer, job.trace.finish(tokens_out=len(answer.tokens))))
    return found


def check_ends_and_budgets(arm: str, *, widest: int, wrong: Sequence[tuple[int, ...]] = ((),)) -> None:
    """EOS at every offset and every budget within two rounds, with drafts wrong at chosen slots."""
    for slots in wrong:
        for offset in range(2 * widest + 3):
            script = (*LONG[:offset], EOS)
            decoded, _, _ = on_toy(script, arm, wrong_slots=slots)
            assert (decoded.tokens, decoded.stop_reason) == (script, "eos")
        for budget in range(1, 2 * widest + 3):
            decoded, trace, _ = on_toy(LONG, arm, budget=budget, wrong_slots=slots)
            assert (decoded.tokens, decoded.stop_reason) == (LONG[:budget], "length")
            assert trace.counters.tokens_out == budget


def check_batches(arm: str, work: Sequence[tuple[int, int]], batch: int, **table: object) -> None:
    """A ragged batch gives the tokens, counters and rounds of single runs. `work`: script length, budget."""
    scripts = [(*LONG[i : i + length], EOS) for i, (length, _) in enumerate(work)]
    budgets = [budget for _, budget in work]
    joint = together(scripts, arm, budgets=budgets, batch=batch, **table)
    for (decoded, trace), script, budget in zip(joint, scripts, budgets, strict=True):
        own, alone, _ = on_toy(script, arm, budget=budget, **table)
        assert decoded == own
        assert (trace.counters, trace.rounds) == (alone.counters, alone.rounds)


def check_identities(trace: Trace) -> None:
    """The counters of a verified strategy hang together."""
    c = trace.counters
    assert c.decode_tokens + c.tokens_discarded_after_stop == c.draft_accepted + c.ar_tokens
    written = c.rows_draft + c.rows_verify + c.rows_denoise + c.rows_cache_write
    assert 0 <= c.kv_rows_freed <= written
    assert (
        written - c.kv_rows_freed == c.decode_tokens
    )  # every committed token but the last, and the first x0


@dataclass
class Watched(Strategy):
    """A strategy with what is committed and cached after each of its rounds."""

    own: Strategy
    seen: list[tuple[tuple[int, ...], Any]] = field(default_factory=list)

    def needs(self, info: ModelInfo) -> Needs:
        return self.own.needs(info)

    def round(self, lane: Lane[Any]) -> Round:
        yield from self.own.round(lane)
        self.seen.append((tuple(lane.output.tokens), lane.state.cache.snapshot()))


@torch.inference_mode()
def check_cache(model: GlmStepModel, ask: Request, arm: str, *, budget: int = 40) -> None:
    """After each round the cache is that of a fresh prefill of all committed tokens but the last."""
    watched = Watched(parse_strategy(arm))
    model.abandon()
    decode_request(model, ask, strategy=watched, budget=budget, trace=TraceRecorder(lambda: 0))
    assert len(watched.seen) > 3
    model.expect(1, Needs(rows_max=budget))
    for tokens, snapshot in watched.seen:
        fresh, _ = model.prefill(ask, budget=budget, trace=TraceRecorder(lambda: 0))
        model.forward([fresh], [Step("verify", causal_window(tokens[:-1]))])
        model.keep(fresh, len(tokens) - 1)
        torch.testing.assert_close(snapshot, fresh.cache.snapshot(), atol=1e-4, rtol=0)
        model.release(fresh)


def check_on_checkpoint(
    backend: TransformersLocal, make_request: Callable[..., Request], arm: str, *, budget: int = 48
) -> list[Trace]:
    """A small random model gives the ids of AR, alone and in ragged batches of 2 and 4."""
    requests = [make_request(variant=i, budget=budget - 9 * i) for i in range(4)]
    expected = [backend.generate(r, DecodeConfig(strategy="ar", max_new_tokens=budget)) for r in requests]
    alone = [backend.generate(r, DecodeConfig(strategy=arm, max_new_tokens=budget)) for r in requests]
    traces = []
    for right, own in zip(expected, alone, strict=True):
        assert (own.token_ids, own.text, own.stop_reason) == (right.token_ids, right.text, right.stop_reason)
        assert own.trace is not None
        check_identities(own.trace)
        traces.append(own.trace)
    for batch in (2, 4):
        joint = f"{arm}{',' if ':' in arm else ':'}batch={batch}"
        got = backend.generate_batch(requests, DecodeConfig(strategy=joint, max_new_tokens=budget))
        for right, own in zip(alone, got, strict=True):
            assert own.token_ids == right.token_ids and own.trace is not None and right.trace is not None
            assert (own.trace.counters, own.trace.rounds) == (right.trace.counters, right.trace.rounds)
    return traces
