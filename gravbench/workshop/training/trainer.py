"""The training loop: one or more processes, a budget in seconds, state saved every few minutes.

A run folder holds `checkpoint/` (loads like any checkpoint), `state.pt` (masters, optimiser, progress;
tensors and numbers only) and `log.jsonl`. The same call on the same folder continues. Progress is processor
seconds over budget, so a run that shares its machine or is paused trains as long as one that does not.
Held-out crops are decoded by the engine of every run.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from rapidfuzz.distance import Levenshtein
from torch.multiprocessing.spawn import spawn

from gravbench.backends.registry import open_backend
from gravbench.errors import EngineError, UsageError
from gravbench.protocols import Backend
from gravbench.records import DecodeConfig, Request
from gravbench.workshop.synth import render_crop
from gravbench.workshop.training.batches import Batch, CropStream, Example, Lexicon, collate, make_example
from gravbench.workshop.training.checkpoints import (
    TINY,
    Shape,
    adopt_checkpoint,
    load_for_training,
    write_checkpoint,
    write_initial_checkpoint,
)
from gravbench.workshop.training.losses import InkHeads, Weights, joint_loss
from gravbench.workshop.training.optimizer import KINDS, Curriculum, Optimizer, fast_dtype

BUDGET = 256
"""Output tokens a held-out crop may take."""


@contextmanager
def _opened(checkpoint: Path, *, device: str, threads: int) -> Iterator[Backend]:
    backend = open_backend("transformers", model=checkpoint, device=device, threads=threads)
    try:
        yield backend
    finally:
        backend.close()


def decode_held_out(
    checkpoint: Path,
    *,
    kinds: Sequence[str] = ("short", "line"),
    crops: int = 12,
    device: str = "cpu",
    threads: int = 1,
) -> dict[str, float]:
    """`<kind>/cer` (edit distance over reference characters, pooled; 0 best) and `<kind>/accepted_draft`.

    One greedy self-speculative decode a crop: its text is the AR text, its accepted drafts are counted.
    """
    result: dict[str, float] = {}
    with (
        _opened(checkpoint, device=device, threads=threads) as backend,
        tempfile.TemporaryDirectory() as folder,
    ):
        for kind in kinds:
            edits = characters = accepted = rounds = 0
            for seed in range(crops):
                crop = render_crop(kind, seed, "heldout")
                path = Path(folder) / f"{kind}-{seed}.png"
                crop.image.save(path)
                name = path.stem
                request = Request(
                    request_id=name,
                    sample_id=name,
                    task=crop.task,
                    image_path=str(path),
                    max_new_tokens=BUDGET,
                )
                generation = backend.generate(
                    request, DecodeConfig(strategy="selfspec", max_new_tokens=BUDGET)
                )
                edits += Levenshtein.distance(generation.text, crop.text)
                characters += len(crop.text)
                if generation.trace is not None:
                    accepted += generation.trace.counters.draft_accepted
                    rounds += generation.trace.counters.rounds
            result[f"{kind}/cer"] = edits / characters
            result[f"{kind}/accepted_draft"] = accepted / rounds if rounds else 0.0
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainOptions:
    """One run. `budget_s`: processor seconds of each process; `blocks`: block sizes drawn per sample."""

    out: Path
    init: Path | None = None
    shape: Shape = TINY
    """Sizes of a model started from nothing."""
    budget_s: float = 3600.0
    processes: int = 1
    seed: int = 0
    matrix_lr: float = 0.02
    other_lr: float = 2e-3
    save_every_s: float = 240.0
    block: int = 8
    """Block size written to block_diffusion.json: what runs draft by default."""
    blocks: tuple[int, ...] = (4, 8, 8, 16)
    full_mask_share: float = 0.6
    robust_share: float = 0.0
    """Share of crops with a fault that users met (rotation, blur, JPEG, inverse, other fonts, wide lines)."""
    curriculum: Curriculum = field(default_factory=Curriculum)
    weights: Weights = field(default_factory=Weights)
    compute_dtype: str | None = None
    """Default: bfloat16 where the hardware multiplies it, else float32. What is saved is bfloat16."""
    device: str = "cpu"
    report: Callable[[dict[str, Any]], None] | None = None
    """Called by the first process with every log entry."""


@dataclass(slots=True)
class Progress:
    """Where a run stands."""

    step: int = 0
    trained_s: float = 0.0
    drawn: dict[str, int] = field(default_factory=dict)
    """Micro-batches taken of each kind."""


def train(options: TrainOptions) -> Path:
    """Train until the budget is used; returns the checkpoint folder. Raises `UsageError`, `EngineError`."""
    if options.processes < 1:
        raise UsageError(f"--processes is {options.processes}, expected at least 1")
    if options.budget_s <= 0:
        raise UsageError(f"--budget is {options.budget_s:g} s, expected more than 0")
    try:
        options.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"{options.out}: cannot be written ({error.strerror})", hint="choose another --out"
        ) from error
    checkpoint = options.out / "checkpoint"
    if not (checkpoint / "config.json").is_file():
        if options.init is None:
            write_initial_checkpoint(
                checkpoint, shape=replace(options.shape, block=options.block), seed=options.seed
            )
        else:
            adopt_checkpoint(options.init, checkpoint, block=options.block)
    if options.processes == 1:
        _worker(0, options)
        return checkpoint
    meeting = options.out / "rendezvous"
    meeting.unlink(missing_ok=True)
    spawn(_worker, args=(options,), nprocs=options.processes, join=True)  # type: ignore[no-untyped-call]
    return checkpoint


def _worker(rank: int, options: TrainOptions) -> None:
    torch.set_num_threads(1)
    if options.processes > 1:
        if hasattr(os, "sched_setaffinity") and len(os.sched_getaffinity(0)) >= options.processes:
            os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank]})
        store = f"file://{(options.out / 'rendezvous').resolve()}"
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=options.processes)
    Trainer(options, rank=rank).run()
    if options.processes > 1:
        dist.destroy_process_group()


class Trainer:
    """One process of a run."""

    def __init__(self, options: TrainOptions, *, rank: int = 0) -> None:
        self.options, self.rank = options, rank
        self.checkpoint = options.out / "checkpoint"
        self.device = torch.device(options.device)
        named_dtype = options.compute_dtype
        dtype = getattr(torch, named_dtype) if named_dtype else fast_dtype(self.device)
        self.model, self.tokenizer, self.processor = load_for_training(self.checkpoint, dtype)
        self.model.to(self.device)
        self.lexicon = Lexicon.of(self.tokenizer, self.processor)
        self.stream = CropStream(self.lexicon, options.seed, rank, options.robust_share)
        text = self.model.config.text_config
        torch.manual_seed(options.seed)
        self.heads = InkHeads(
            width=self.model.config.vision_config.hidden_size,
            dim=text.hidden_size,
            vocabulary=text.vocab_size,
        ).to(self.device, dtype)
        named = [*self.model.named_parameters(), *(("ink." + n, p) for n, p in self.heads.named_parameters())]
        self.optimizer = Optimizer(named, rank=rank, world=options.processes)
        self.progress = Progress()
        self._resume()

    @property
    def share(self) -> float:
        """Progress in [0, 1]."""
        return min(self.progress.trained_s / self.options.budget_s, 1.0)

    def run(self) -> None:
        """Steps until the budget is used; saves on the way and at the end."""
        saved_at = self.progress.trained_s
        while self.share < 1.0:
            began = time.process_time()
            parts = self.one_step()
            self.progress.trained_s += self._agreed(time.process_time() - began)
            if self.rank == 0 and self.progress.step % 20 == 0:
                self._log({"event": "step", **parts})
            if self.progress.trained_s - saved_at >= self.options.save_every_s or self.share >= 1.0:
                saved_at = self.progress.trained_s
                if self.rank == 0:
                    self.save()
                    free = decode_held_out(self.checkpoint, device=self.options.device)
                    self._log({"event": "held-out", **free, **self.held_out()})

    def one_step(self) -> dict[str, float]:
        """One optimiser step over the micro-batches of the curriculum; returns the mean loss parts."""
        o, curriculum = self.options, self.options.curriculum
        shared = np.random.default_rng((o.seed, self.progress.step))
        kinds = curriculum.micro_batches(self.share, shared)
        own = np.random.default_rng((o.seed, self.progress.step, self.rank + 1))
        weights = o.weights
        if self.share < curriculum.vision_only:
            weights = Weights(**{**asdict(weights), "decoder": False})
        sums: dict[str, list[float]] = {}
        for kind in kinds:
            batch = self._batch(kind, own)
            losses = joint_loss(self.model, self.heads, batch, weights)
            (losses.total / len(kinds)).backward()  # type: ignore[no-untyped-call]
            for name, value in losses.parts.items():
                sums.setdefault(name, []).append(value)
        rate = curriculum.rate(self.share)
        norm = self.optimizer.step(matrix_lr=rate * o.matrix_lr, other_lr=rate * o.other_lr)
        self.progress.step += 1
        return {**{k: sum(v) / len(v) for k, v in sums.items()}, "grad_norm": norm, "rate": rate}

    def _batch(self, kind: str, rng: np.random.Generator) -> Batch:
        o = self.options
        index = self.progress.drawn.get(kind, 0)
        self.progress.drawn[kind] = index + 1
        examples = self.stream.micro_batch(kind, index)
        batch = collate(examples, self.lexicon, blocks=o.blocks, full_mask_share=o.full_mask_share, rng=rng)
        return batch.to(self.device)

    @torch.no_grad()
    def held_out(self, *, crops: int = 24) -> dict[str, float]:
        """Teacher-forced accuracies by kind on held-out crops: AR, fully masked drafts, ink."""
        result: dict[str, float] = {}
        block = self.options.block
        for kind in KINDS:
            examples = _held_out_examples(kind, crops if kind != "paragraph" else crops // 2, self.lexicon)
            rng = np.random.default_rng(0)
            batch = collate(examples, self.lexicon, blocks=(block,), full_mask_share=1.0, rng=rng)
            parts = joint_loss(self.model, self.heads, batch.to(self.device), Weights()).parts
            result |= {f"{kind}/{name}": parts[name] for name in ("ar_acc", "draft_acc", "ink_acc")}
        return result

    def save(self) -> None:
        """Write state and checkpoint, each replaced atomically enough that a kill leaves one whole copy."""
        state = {
            "optimizer": self.optimizer.state(),
            "step": self.progress.step,
            "trained_s": self.progress.trained_s,
            "drawn": self.progress.drawn,
        }
        part = self.options.out / "state.pt.part"
        torch.save(state, part)
        part.replace(self.options.out / "state.pt")
        write_checkpoint(
            self.checkpoint, self.model, self.tokenizer, self.processor, block=self.options.block
        )

    def _resume(self) -> None:
        path = self.options.out / "state.pt"
        if not path.is_file():
            return
        try:
            state = torch.load(path, weights_only=True)
        except Exception as error:
            raise EngineError(
                f"{path}: not a training state ({error})", hint="remove it to start over"
            ) from error
        self.optimizer.load(state["optimizer"], steps=state["step"])
        self.progress = Progress(state["step"], state["trained_s"], dict(state.get("drawn", {})))

    def _agreed(self, seconds: float) -> float:
        if self.options.processes == 1:
            return seconds
        value = torch.tensor([seconds])
        dist.all_reduce(value, op=dist.ReduceOp.MAX)
        return float(value)

    def _log(self, entry: dict[str, Any]) -> None:
        entry = {"step": self.progress.step, "trained_s": round(self.progress.trained_s, 1), **entry}
        rounded = {k: round(v, 4) if isinstance(v, float) else v for k, v in entry.items()}
        with (self.options.out / "log.jsonl").open("a", encoding="utf-8") as log:
            log.write(json.dumps(rounded) + "\n")
        if self.options.report is not None:
            self.options.report(rounded)


def _held_out_examples(kind: str, count: int, lexicon: Lexicon) -> list[Example]:
    return [make_example(render_crop(kind, seed, "heldout"), lexicon) for seed in range(count)]
