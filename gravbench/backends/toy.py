"""A table instead of a network: integer logits and chosen draft mistakes, exact on any CPU.

Every request has a script of tokens. A causal row predicts the script's next token if, and only if,
everything it sees (cache and window) is the script so far, each place up to its own once; otherwise it
predicts a token hashed from what it sees. So a stale cache row, a wrong mask, a wrong position or a lost
token changes the output. A row of mask tokens drafts the script's token after its place, except where the
table says it errs, as does a token among masks that sees behind its place; a noise row guesses the token of
its own place. Characters are tokens; tests only.
"""

from __future__ import annotations

import hashlib
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

import torch
from pydantic import Field, ValidationError

from gravbench.decoding.answers import answer_requests
from gravbench.decoding.masks import causal
from gravbench.decoding.protocols import Head, HeadInfo, ModelInfo
from gravbench.decoding.rows import Reply, Rows
from gravbench.decoding.strategies import parse_strategy
from gravbench.decoding.tracing import TraceRecorder
from gravbench.decoding.window import Needs, Step, Wants, Window
from gravbench.errors import EngineError, UsageError
from gravbench.protocols import BackendInfo
from gravbench.records import DecodeConfig, Generation, Record, Request

EOS = 0
MASK = 1
_FIRST_CHAR = 2
_CHARS = "\n" + "".join(chr(code) for code in range(32, 127))
VOCAB_SIZE = _FIRST_CHAR + len(_CHARS)
LAYERS = 3
LOST = VOCAB_SIZE
"""A cached token that stands where another should: no script holds it."""
_PREFIX = Window((EOS,) * 12, causal(12))


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
    """Cached response tokens behind a fixed prefix, and the scratch slots: slot -> (position, token)."""

    script: tuple[int, ...]
    prefix_tokens: int
    cached: list[int] = field(default_factory=list)
    scratch: dict[int, tuple[int, int]] = field(default_factory=dict)


class ToyModel:
    """A `StepModel` over scripts of token ids. `script_of` maps a request to its script."""

    def __init__(
        self,
        table: ToyTable,
        *,
        script_of: Callable[[Request], tuple[int, ...]],
        heads: Mapping[str, Head[ToyState]] | None = None,
    ) -> None:
        self._table = table
        self._script_of = script_of
        self._heads = {"mtp": ToyHead(self, table)} if heads is None else heads
        self._needs = Needs(rows_max=1)
        self.head: Head[ToyState] | None = None
        drafts = table.block_size is not None
        self.info = ModelInfo(
            eos_token_ids=(EOS,),
            vocab_size=VOCAB_SIZE,
            max_positions=table.max_positions,
            mask_token_id=table.mask_token_id if drafts else None,
            block_size=table.block_size,
            layers=LAYERS,
            heads=tuple(HeadInfo(name) for name in self._heads),
            noise=True,
            encode=lambda text: encode(text)[:-1],
        )

    def expect(self, requests: int, needs: Needs) -> None:  # noqa: ARG002 - no memory to make
        if needs.head is not None and needs.head not in self._heads:
            raise UsageError(f"the toy has no head '{needs.head}'")
        self._needs = needs
        self.head = None if needs.head is None else self._heads[needs.head]

    def prefill(self, request: Request, *, budget: int, trace: TraceRecorder) -> tuple[ToyState, Rows]:
        if budget < 1:
            raise ValueError(f"budget must be at least 1, got {budget}")
        with trace.stage("image"):
            state = ToyState(script=self._script_of(request), prefix_tokens=12)
        with trace.stage("vision"):
            trace.prefilled(prompt_tokens=4, vision_tokens=8, vision_forwards=1)
        with trace.stage("prefill"):
            first = self._continuation(state, ())
            return state, Rows(self.reply([[first] * 12], [Step("verify", _PREFIX, Wants(rows=(11,)))]))

    def room(self, state: ToyState) -> int:
        return self.info.max_positions - state.prefix_tokens

    def forward(self, states: Sequence[ToyState], steps: Sequence[Step]) -> Reply:
        rows = [self._predict(state, step.window) for state, step in zip(states, steps, strict=True)]
        return self.reply(rows, steps)

    def keep(self, state: ToyState, rows: int | Sequence[int]) -> None:
        slots = list(range(rows) if isinstance(rows, int) else rows)
        if slots != sorted(set(slots)) or not set(slots) <= set(state.scratch):
            raise ValueError(f"cannot keep {rows} of {len(state.scratch)} rows, ascending from 0")
        for slot in slots:
            position, token = state.scratch[slot]
            state.cached.append(token if position == len(state.cached) else LOST)
        state.scratch = {}

    def release(self, state: ToyState) -> None:
        state.cached.clear()

    def abandon(self) -> None:
        """Nothing is held but by its state; a head has its own."""
        for head in self._heads.values():
            head.abandon()

    def _predict(self, state: ToyState, window: Window) -> list[int]:
        """The token each row predicts."""
        length, rows = len(state.cached), range(len(window.tokens))
        places = [length + at for at in window.positions or rows]
        slots = list(window.slots or rows)
        state.scratch |= dict(zip(slots, zip(places, window.tokens, strict=True), strict=True))
        drawn = [n is not None for n in window.noise or [None] * len(rows)]
        noisy = {slot for slot, noise in zip(slots, drawn, strict=True) if noise}
        predicted = []
        for row in rows:
            visible = [slot for slot in state.scratch if window.mask.sees(row, slot)]
            seen = sorted(state.scratch[slot] for slot in visible if slot not in noisy)
            if drawn[row]:
                predicted.append(self._hint(state, seen, position=places[row]))
            elif window.tokens[row] == MASK or any(place > places[row] for place, _ in seen):
                predicted.append(self._draft(state, seen, position=places[row]))
            else:
                predicted.append(self._next(state, seen, position=places[row]))
        return predicted

    def _next(self, state: ToyState, seen: Sequence[tuple[int, int]], *, position: int) -> int:
        """What follows the cache and `seen`, which must fill every place up to the row's own, each once."""
        tokens = (*state.cached, *(token for _, token in seen))
        whole = [place for place, _ in seen] == list(range(len(state.cached), position + 1))
        return self._continuation(state, tokens) if whole else _guess((position, *tokens))

    def _continuation(self, state: ToyState, seen: tuple[int, ...]) -> int:
        """Next token after exactly `seen`: the script's while on it, else a hash; past its end, EOS."""
        if seen == state.script[: len(seen)]:
            return state.script[len(seen)] if len(seen) < len(state.script) else EOS
        return _guess(seen)

    def _draft(self, state: ToyState, seen: Sequence[tuple[int, int]], *, position: int) -> int:
        """The guess of a row of a draft, a mask or one that sees behind its place, at the token after it.

        A near miss where the table errs. Its slot j counts the mask rows it sees up to its place. What it
        sees of tokens must be the script.
        """
        tokens = [(place, token) for place, token in seen if token != MASK]
        if any(token != _at(state.script, place) for place, token in tokens):
            return _guess((position, *(token for _, token in tokens)))
        slot = sum(token == MASK and place <= position for place, token in seen)
        return self._errs(state, position + 1, slot in self._table.wrong_slots)

    def _hint(self, state: ToyState, seen: Sequence[tuple[int, int]], *, position: int) -> int:
        """A noise row's guess at the token of its own place; its laws are points, whatever the noise."""
        if any(token != _at(state.script, place) for place, token in seen):
            return _guess((position, *(token for _, token in seen)))
        return self._errs(state, position, False)

    def _errs(self, state: ToyState, position: int, wrong: bool) -> int:
        """The script's token, or its neighbour where `wrong` or the table says so."""
        token = _at(state.script, position)
        return (token + 1) % VOCAB_SIZE if wrong or position in self._table.wrong_positions else token

    def reply(self, predicted: Sequence[Sequence[int]], steps: Sequence[Step]) -> Reply:
        """Rows of all requests one after another; features are the predicted token, and it plus each tap."""
        every = [token for rows in predicted for token in rows]
        ends = list(accumulate(map(len, predicted)))
        firsts = [end - len(rows) for end, rows in zip(ends, predicted, strict=True)]
        read = [
            [rows[row] for row in range(len(rows)) if step.wants.rows is None or row in step.wants.rows]
            for rows, step in zip(predicted, steps, strict=True)
        ]
        hidden = torch.tensor(every, dtype=torch.float32)[:, None]
        return Reply(
            logits=self._logits([token for rows in read for token in rows]),
            widths=[len(rows) for rows in predicted],
            starts=[end - len(rows) for end, rows in zip(accumulate(map(len, read)), read, strict=True)],
            wanted=[step.wants.rows for step in steps],
            firsts=firsts,
            hidden=hidden if self._needs.hidden else None,
            taps=[hidden + layer for layer in self._needs.taps],
        )

    @staticmethod
    def _logits(winners: Sequence[int]) -> torch.Tensor:
        """Integers [Q, V]: 2 for the winner, 1 for its neighbour, 0 elsewhere; a mask is never drawn."""
        logits = torch.zeros(len(winners), VOCAB_SIZE)
        index = torch.arange(len(winners))
        first = torch.tensor(winners, dtype=torch.long)
        logits[index, (first + 1) % VOCAB_SIZE] = 1.0
        logits[:, MASK] = -99.0
        logits[index, first] = 2.0
        return logits


class ToyHead:
    """An `mtp` head that knows the script and errs where the table says so.

    Its row n joins token n of the answer with the state before it. A row drafts the token after its own while
    every row held so far is the script's token for its place; otherwise it guesses.
    """

    def __init__(self, model: ToyModel, table: ToyTable) -> None:
        self._model, self._table = model, table
        self._held: dict[int, list[int]] = {}
        """By request, the tokens of the rows behind those of the prefix."""

    def prefill(self, state: ToyState, prefix: Rows) -> None:
        if not prefix.hidden([len(prefix) - 1]).isfinite().all():
            raise ValueError("a prefix without states")
        self._held[id(state)] = []

    def extend(self, states: Sequence[ToyState], steps: Sequence[Step]) -> Reply:
        for step in steps:
            if step.features is None or len(step.features) != len(step.window.tokens):
                raise ValueError("a true row is a token with the state before it")
        return self.step(states, steps)

    def step(self, states: Sequence[ToyState], steps: Sequence[Step]) -> Reply:
        guessed = [
            [self._after(state, token) for token in step.window.tokens]
            for state, step in zip(states, steps, strict=True)
        ]
        return self._model.reply(guessed, steps)

    def truncate(self, state: ToyState, rows: int) -> None:
        del self._held[id(state)][rows - (len(_PREFIX.tokens) - 1) :]

    def length(self, state: ToyState) -> int:
        return (len(_PREFIX.tokens) - 1) + len(self._held[id(state)])

    def release(self, state: ToyState) -> None:
        del self._held[id(state)]

    def abandon(self) -> None:
        self._held.clear()

    def _after(self, state: ToyState, token: int) -> int:
        held = self._held[id(state)]
        held.append(token)
        place = len(held)
        if any(own != _at(state.script, at) for at, own in enumerate(held)):
            return _guess((place, *held))
        right = _at(state.script, place)
        return (right + 1) % VOCAB_SIZE if place in self._table.wrong_positions else right


def _at(script: tuple[int, ...], position: int) -> int:
    return script[position] if position < len(script) else EOS


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
            parse_strategy(text).needs(self.step_model.info)

    def generate(self, request: Request, decode: DecodeConfig) -> Generation:
        return self.generate_batch([request], decode)[0]

    def generate_batch(self, requests: Sequence[Request], decode: DecodeConfig) -> list[Generation]:
        return answer_requests(self.step_model, requests, decode, detokenize=detokenize, clock=self._clock)

    def settle(self) -> None:
        """Nothing to do between requests."""

    def take_peak_bytes(self) -> None:
        """There is no accelerator."""

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
