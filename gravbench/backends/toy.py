"""A table instead of a network: integer logits and chosen draft mistakes, exact on any CPU.

Every request has a script of tokens. A causal row predicts the script's next token if, and only if,
everything it sees (cache and window) is the script so far; otherwise it predicts a token hashed from
what it sees. So a stale cache row, a wrong mask or a lost token changes the output. A row of mask
tokens drafts the script's token for its slot, except where the table says it errs. Characters are
tokens; tests only.
"""

from __future__ import annotations

import hashlib
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from pydantic import Field, ValidationError

from gravbench.decoding.answers import answer_requests
from gravbench.decoding.protocols import ModelInfo, Window
from gravbench.decoding.strategies import parse_strategy
from gravbench.decoding.tracing import TraceRecorder
from gravbench.errors import EngineError, UsageError
from gravbench.protocols import BackendInfo
from gravbench.records import DecodeConfig, Generation, Record, Request

EOS = 0
MASK = 1
_FIRST_CHAR = 2
_CHARS = "\n" + "".join(chr(code) for code in range(32, 127))
VOCAB_SIZE = _FIRST_CHAR + len(_CHARS)


class ToyTable(Record):
    """What the toy says and where its drafts err; as JSON, the `model` of this backend."""

    scripts: dict[str, str] = Field(default_factory=dict)
    """Sample id -> text. Characters outside printable ASCII become `?`; other ids get a made-up text."""
    wrong_slots: tuple[int, ...] = ()
    """Draft slots j (1..B) that err in every round."""
    wrong_positions: tuple[int, ...] = (5, 6, 23, 41)
    """Response positions (0 = first token) whose draft errs."""
    mask_token_id: int = MASK
    """The mask id decoding uses; any other than the trained one (1) makes every draft a guess."""
    block_size: int | None = Field(default=8, ge=1)
    """`None`: a checkpoint that cannot draft."""
    max_positions: int = Field(default=4096, ge=2)


def encode(text: str) -> tuple[int, ...]:
    """Token ids of `text`, EOS appended."""
    return (*(_FIRST_CHAR + _CHARS.index(c if c in _CHARS else "?") for c in text), EOS)


def detokenize(tokens: Sequence[int]) -> str:
    """Text of `tokens`; EOS and mask are special and leave no text."""
    return "".join(_CHARS[token - _FIRST_CHAR] for token in tokens if token >= _FIRST_CHAR)


def made_up_text(sample_id: str) -> str:
    """A text of 8 to 71 characters that depends on the sample id alone."""
    digest = hashlib.sha256(sample_id.encode()).digest()
    length = 8 + digest[0] % 64
    return "".join(_CHARS[1 + byte % (len(_CHARS) - 1)] for byte in (digest * 3)[1 : 1 + length])


@dataclass(slots=True)
class ToyState:
    """Cached response tokens behind a fixed prefix, and the rows of the last window."""

    script: tuple[int, ...]
    prefix_tokens: int
    cached: list[int] = field(default_factory=list)
    pending: list[int] = field(default_factory=list)


class ToyModel:
    """A `StepModel` over scripts of token ids. `script_of` maps a request to its script."""

    def __init__(self, table: ToyTable, *, script_of: Callable[[Request], tuple[int, ...]]) -> None:
        self._table = table
        self._script_of = script_of
        drafts = table.block_size is not None
        self.info = ModelInfo(
            eos_token_ids=(EOS,),
            vocab_size=VOCAB_SIZE,
            max_positions=table.max_positions,
            mask_token_id=table.mask_token_id if drafts else None,
            block_size=table.block_size,
        )

    def prefill(
        self, request: Request, *, budget: int, window: int, trace: TraceRecorder
    ) -> tuple[ToyState, torch.Tensor]:
        if budget < 1 or window < 1:
            raise ValueError(f"budget and window must be at least 1, got {budget} and {window}")
        with trace.stage("image"):
            state = ToyState(script=self._script_of(request), prefix_tokens=12)
        with trace.stage("vision"):
            trace.prefilled(prompt_tokens=4, vision_tokens=8, vision_forwards=1)
        with trace.stage("prefill"):
            return state, self._logits([self._continuation(state, ())])[0]

    def room(self, state: ToyState) -> int:
        return self.info.max_positions - state.prefix_tokens

    def forward(self, state: ToyState, window: Window) -> torch.Tensor:
        rows = list(window.tokens)
        state.pending = rows
        predicted = []
        for query, token in enumerate(rows):
            seen = [t for key, t in enumerate(rows) if window.mask.sees(query, key)]
            sees_ahead = window.mask.sees(query, query + 1)
            if token == MASK and sees_ahead:
                predicted.append(self._draft(state, slot=query))
            else:
                predicted.append(self._continuation(state, (*state.cached, *seen)))
        return self._logits(predicted)

    def forward_batch(self, states: Sequence[ToyState], windows: Sequence[Window]) -> torch.Tensor:
        logits = [self.forward(state, window) for state, window in zip(states, windows, strict=True)]
        return torch.nn.utils.rnn.pad_sequence(logits, batch_first=True)

    def keep(self, state: ToyState, rows: int) -> None:
        if not 0 <= rows <= len(state.pending):
            raise ValueError(f"cannot keep {rows} of {len(state.pending)} rows")
        state.cached.extend(state.pending[:rows])
        state.pending = []

    def expect(self, requests: int) -> None:
        """No memory to make."""

    def release(self, state: ToyState) -> None:
        state.cached.clear()

    def abandon(self) -> None:
        """Nothing is held but by its state."""

    def _continuation(self, state: ToyState, seen: tuple[int, ...]) -> int:
        """Next token after exactly `seen`: the script's while on it, else a hash; past its end, EOS."""
        if seen == state.script[: len(seen)]:
            return state.script[len(seen)] if len(seen) < len(state.script) else EOS
        return _guess(seen)

    def _draft(self, state: ToyState, *, slot: int) -> int:
        """Draft d_slot: the token after mask slot `slot`, or a near miss where the table errs."""
        position = len(state.cached) + slot + 1
        token = state.script[position] if position < len(state.script) else EOS
        errs = slot in self._table.wrong_slots or position in self._table.wrong_positions
        return (token + 1) % VOCAB_SIZE if errs else token

    @staticmethod
    def _logits(winners: Sequence[int]) -> torch.Tensor:
        """Integers [Q, V]: 2 for the winner, 1 for its neighbour, 0 elsewhere."""
        logits = torch.zeros(len(winners), VOCAB_SIZE)
        index = torch.arange(len(winners))
        first = torch.tensor(winners)
        logits[index, (first + 1) % VOCAB_SIZE] = 1.0
        logits[index, first] = 2.0
        return logits


def _guess(seen: tuple[int, ...]) -> int:
    return _FIRST_CHAR + zlib.crc32(repr(seen).encode()) % len(_CHARS)


class ToyBackend:
    """The table-driven model as a backend. `clock` counts nanoseconds."""

    def __init__(
        self, table: ToyTable, *, name: str = "toy", clock: Callable[[], int] = time.perf_counter_ns
    ) -> None:
        self._table = table
        self._name = name
        self._clock = clock
        self.step_model = ToyModel(table, script_of=self._script)

    def describe(self) -> BackendInfo:
        return BackendInfo(
            name="toy",
            model=self._name,
            model_digest=hashlib.sha256(self._table.model_dump_json().encode()).hexdigest(),
            engine="table",
            device="cpu",
            dtype="float32",
            threads=1,
            eos_token_ids=self.step_model.info.eos_token_ids,
            mask_token_id=self.step_model.info.mask_token_id,
            block_size=self.step_model.info.block_size,
        )

    def check(self, strategies: Sequence[str]) -> None:
        for text in strategies:
            parse_strategy(text).widest_window(self.step_model.info)

    def generate(self, request: Request, decode: DecodeConfig) -> Generation:
        return self.generate_batch([request], decode)[0]

    def generate_batch(self, requests: Sequence[Request], decode: DecodeConfig) -> list[Generation]:
        return answer_requests(self.step_model, requests, decode, detokenize=detokenize, clock=self._clock)

    def settle(self) -> None:
        """Nothing to do between requests."""

    def close(self) -> None:
        """Nothing to release."""

    def _script(self, request: Request) -> tuple[int, ...]:
        text = self._table.scripts.get(request.sample_id)
        return encode(made_up_text(request.sample_id) if text is None else text)


def open_backend(
    model: Path | None,
    *,
    device: str,
    dtype: str,
    threads: int,  # noqa: ARG001
) -> ToyBackend:
    """`model` is a JSON file of a `ToyTable`, or `None` for made-up texts. Always one CPU thread, float32."""
    if (device, dtype) != ("cpu", "float32"):
        raise UsageError(
            f"backend 'toy' on device '{device}' in '{dtype}'",
            hint="It knows device cpu and dtype float32 alone.",
        )
    if model is None:
        return ToyBackend(ToyTable())
    try:
        return ToyBackend(ToyTable.model_validate_json(model.read_bytes()), name=model.name)
    except OSError as error:
        raise EngineError(f"{model}: cannot read the toy table: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise EngineError(f"{model}: {where or 'document'}: {first['msg']}") from error
