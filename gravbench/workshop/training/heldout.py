"""Free-running quality and acceptance of a saved checkpoint on held-out crops, by the engine of every run."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rapidfuzz.distance import Levenshtein

from gravbench.backends.registry import open_backend
from gravbench.protocols import Backend
from gravbench.records import DecodeConfig, Request
from gravbench.workshop.synth import render_crop

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
