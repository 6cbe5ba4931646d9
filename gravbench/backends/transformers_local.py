"""A GLM-OCR checkpoint in this process: stock vision, lean decoding, any strategy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch

from gravbench.backends.glm.checkpoint import BLOCK_DIFFUSION, CheckpointFiles, assumptions, read_checkpoint
from gravbench.backends.glm.graphs import CudaRecorder
from gravbench.backends.glm.heads import HeadFile, head_infos, heads_of, openers
from gravbench.backends.glm.loading import Loaded, load
from gravbench.backends.glm.request import strip_thinking
from gravbench.backends.glm.step_model import GlmStepModel
from gravbench.decoding.answers import answer_requests
from gravbench.decoding.protocols import ModelInfo
from gravbench.decoding.strategies import parse_strategy
from gravbench.errors import EngineError, UsageError
from gravbench.protocols import BackendInfo
from gravbench.records import DecodeConfig, Generation, Request
from gravbench.resources import shipped_model_dir

MASK_TOKEN = "<|mask|>"
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


class TransformersLocal:
    """One loaded checkpoint. `clock` counts nanoseconds of a monotonic clock."""

    def __init__(
        self,
        folder: Path,
        *,
        device: str = "cpu",
        dtype: str = "float32",
        threads: int = 1,
        cuda_graphs: bool = False,
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        place = _device(device)
        if dtype not in DTYPES:
            raise UsageError(f"unknown dtype '{dtype}'", hint="known: " + ", ".join(DTYPES))
        if threads < 1:
            raise UsageError(f"threads is {threads}, expected at least 1")
        if cuda_graphs and place.type != "cuda":
            raise UsageError(f"cuda_graphs on device '{device}'", hint="Leave it out, or use --device cuda.")
        torch.set_num_threads(threads)
        self._files = read_checkpoint(folder)
        self._settings = (device, dtype, threads)
        self._cuda_graphs = cuda_graphs
        self._clock = clock
        self._digest: str | None = None
        try:
            loaded = load(self._files, device=place, dtype=DTYPES[dtype])
            recorder = CudaRecorder(place) if cuda_graphs else None
            heads = heads_of(self._files)
            info = _model_info(self._files, loaded, heads)
            with torch.inference_mode():
                self.step_model = GlmStepModel(
                    loaded, info, record=recorder, heads=openers(heads, self._files)
                )
        except (MemoryError, torch.OutOfMemoryError) as error:
            raise EngineError(f"{folder}: out of memory while loading on {device}") from error
        self._tokenizer = loaded.tokenizer
        self._unused = loaded.warnings

    def describe(self) -> BackendInfo:
        device, dtype, threads = self._settings
        info = self.step_model.info
        self._digest = self._digest or self._files.digest()
        return BackendInfo(
            name="transformers",
            model=self._files.folder.name,
            model_digest=self._digest,
            engine=f"lean decoder, torch {torch.__version__}",
            cuda_graphs=self._cuda_graphs,
            device=device,
            dtype=dtype,
            threads=threads,
            eos_token_ids=info.eos_token_ids,
            mask_token_id=info.mask_token_id,
            block_size=info.block_size,
            warnings=(
                *assumptions(self._files, self._tokenizer),
                *_warnings(self._files, self._tokenizer),
                *self._unused,
            ),
        )

    def check(self, strategies: Sequence[str]) -> None:
        for text in strategies:
            strategy = parse_strategy(text)
            try:
                needs = strategy.needs(self.step_model.info)
                if needs.head is not None:
                    with self._on_device():
                        self.step_model.open_head(needs.head)
            except UsageError as error:
                missing = self._files.block_diffusion is None and BLOCK_DIFFUSION in error.message
                where = self._files.folder / BLOCK_DIFFUSION if missing else self._files.folder
                raise UsageError(f"{where}: {error.message}", hint=error.hint) from error

    def generate(self, request: Request, decode: DecodeConfig) -> Generation:
        return self.generate_batch([request], decode)[0]

    def generate_batch(self, requests: Sequence[Request], decode: DecodeConfig) -> list[Generation]:
        try:
            with self._on_device():
                return answer_requests(
                    self.step_model, requests, decode, detokenize=self._detokenize, clock=self._clock
                )
        except (MemoryError, RuntimeError) as error:
            if not _out_of_memory(error):
                raise
            samples = ", ".join(request.sample_id for request in requests[:4])
            raise EngineError(
                f"out of memory on {self._settings[0]} while decoding sample {samples}",
                hint="use a smaller --batch-size or block, or a device with more memory",
            ) from error

    def settle(self) -> None:
        with self._on_device():
            self.step_model.settle()

    def take_peak_bytes(self) -> int | None:
        device = self.step_model.decoder.device
        if device.type != "cuda":
            return None
        peak = torch.cuda.max_memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        return peak

    @contextmanager
    def _on_device(self) -> Iterator[None]:
        """No gradients; streams and recordings belong to this backend's device."""
        device = self.step_model.decoder.device
        with torch.inference_mode(), torch.cuda.device(device) if device.type == "cuda" else nullcontext():
            yield

    def _detokenize(self, tokens: Sequence[int]) -> str:
        text = self._tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return strip_thinking(text)

    def close(self) -> None:
        """Let go of the model; the backend is unusable afterwards."""
        del self.step_model


def open_backend(
    model: Path | None, *, device: str, dtype: str, threads: int, cuda_graphs: bool = False
) -> TransformersLocal:
    """`model` is a checkpoint folder; `None` means the one that ships with the package."""
    folder = shipped_model_dir() if model is None else model
    return TransformersLocal(folder, device=device, dtype=dtype, threads=threads, cuda_graphs=cuda_graphs)


def _model_info(files: CheckpointFiles, loaded: Loaded, heads: Mapping[str, HeadFile]) -> ModelInfo:
    draft, text_config = files.block_diffusion, loaded.model.config.text_config
    return ModelInfo(
        eos_token_ids=loaded.eos_token_ids,
        vocab_size=text_config.vocab_size,
        max_positions=text_config.max_position_embeddings,
        layers=text_config.num_hidden_layers,
        heads=head_infos(heads),
        mask_token_id=None if draft is None else draft.mask_id,
        block_size=None if draft is None else draft.bd_size,
        encode=lambda text: loaded.tokenizer.encode(text, add_special_tokens=False),
    )


def _warnings(files: CheckpointFiles, tokenizer: Any) -> tuple[str, ...]:
    draft = files.block_diffusion
    if draft is None:
        return ()
    found = []
    if draft.ar_loss_weight == 0:
        found.append(
            f"{BLOCK_DIFFUSION}: ar_loss_weight is 0, so the causal path that verifies was not trained"
        )
    mask = tokenizer.get_vocab().get(MASK_TOKEN)
    if mask is not None and mask != draft.mask_id:
        found.append(
            f"{BLOCK_DIFFUSION}: mask_id is {draft.mask_id}, but {MASK_TOKEN} is token {mask}: "
            "outputs stay exact, acceptance is at its floor"
        )
    return tuple(found)


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UsageError(f"unknown device '{name}'", hint="use cpu, cuda or cuda:N") from error
    if device.type not in ("cpu", "cuda"):
        raise UsageError(f"device '{name}' is not supported", hint="use cpu, cuda or cuda:N")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise EngineError(f"device '{name}' is not there: {torch.cuda.device_count()} CUDA devices found")
    return device


def _out_of_memory(error: Exception) -> bool:
    """CUDA and Python say so by type; the CPU allocator raises a plain RuntimeError."""
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "can't allocate memory" in str(error)
