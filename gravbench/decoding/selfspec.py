"""`selfspec`: the same weights draft a block by diffusion and verify it autoregressively.

The two-forward full-draft round of GravityOCR, and its legacy variant:

    draft    [x0 | MASK x B]        WINDOW(1)  ->  a0 (exact, the row is causal), d_1..d_B
    verify   [a0, d_1..d_B]         CAUSAL     ->  a_1..a_{B+1}
    commit   a0, d_1..d_A, a_{A+1}             A = longest prefix with d_j = a_j; 2..B+2 tokens

x0's keys and values are kept from the draft forward, so both forwards have B + 1 rows and no third
one is needed. The legacy round verifies `[x0, a0, d_1..d_{B-1}]` instead: the last mask's logits are
unused, there is no bonus token, and a round commits at most B tokens. The output is the same.

When a0 itself ends the request (EOS, or the last token of the budget) the verify is skipped and the
round has offered nothing. Otherwise the window keeps its size up to the end of the budget: a shorter
one could not change the tokens, and one shape serves every round.
"""

from __future__ import annotations

from dataclasses import dataclass

from gravbench.decoding.accept import matched_prefix
from gravbench.decoding.masks import CAUSAL, WINDOW_1
from gravbench.decoding.output import Output
from gravbench.decoding.protocols import ModelInfo, Round, StateT, Step, StepModel, Window
from gravbench.decoding.tracing import TraceRecorder
from gravbench.errors import UsageError


@dataclass(frozen=True, slots=True)
class SelfSpeculative:
    """`block=None` drafts the block size the checkpoint was trained with."""

    block: int | None = None
    legacy: bool = False

    def widest_window(self, info: ModelInfo) -> int:
        block, _ = self._draft_setting(info)
        if block + 1 > info.max_positions:
            raise UsageError(
                f"selfspec:block={block}: a window of {block + 1} rows exceeds the cache of "
                f"{info.max_positions} positions",
                hint=f"use a block of at most {info.max_positions - 1}",
            )
        return block + 1

    def round(self, model: StepModel[StateT], state: StateT, output: Output, trace: TraceRecorder) -> Round:
        block, mask_id = self._draft_setting(model.info)
        a0, *drafts = yield Step("draft", Window((output.boundary, *(mask_id,) * block), WINDOW_1))
        if output.ends_with(a0):
            model.keep(state, 1)
            trace.dropped(block)
            trace.round(offered=0, accepted=0, produced=1, committed=output.extend((a0,)))
        elif self.legacy:
            yield from _verify_legacy(model, state, output, trace, a0=a0, drafts=drafts[:-1])
        else:
            yield from _verify_full(model, state, output, trace, a0=a0, drafts=drafts)

    def _draft_setting(self, info: ModelInfo) -> tuple[int, int]:
        """Block size and mask id, or the error that says why this checkpoint cannot draft."""
        block = self.block if self.block is not None else info.block_size
        if info.mask_token_id is None or block is None:
            raise UsageError(
                "selfspec: this checkpoint has no block_diffusion.json, so no mask token to draft with",
                hint="use --strategy ar, or a checkpoint trained for block diffusion",
            )
        return block, info.mask_token_id


def _verify_full(
    model: StepModel[StateT],
    state: StateT,
    output: Output,
    trace: TraceRecorder,
    *,
    a0: int,
    drafts: list[int],
) -> Round:
    """Keep x0's row, verify `[a0, d_1..d_B]`, commit a0, the accepted drafts and the verifier's token."""
    model.keep(state, 1)
    rows = len(drafts) + 1
    verified = yield Step("verify", Window((a0, *drafts), CAUSAL))
    accepted = matched_prefix(drafts, verified)
    tokens = [a0, *drafts[:accepted], verified[accepted]]
    committed = output.extend(tokens)
    kept = committed - 1  # all but the new boundary token
    model.keep(state, kept)
    trace.dropped(len(drafts) + rows - kept)
    trace.round(offered=len(drafts), accepted=accepted, produced=len(tokens), committed=committed)


def _verify_legacy(
    model: StepModel[StateT],
    state: StateT,
    output: Output,
    trace: TraceRecorder,
    *,
    a0: int,
    drafts: list[int],
) -> Round:
    """Drop the draft's rows, verify `[x0, a0, d_1..d_{B-1}]`, commit without a bonus token."""
    model.keep(state, 0)
    rows = len(drafts) + 2
    _, *verified = yield Step("verify", Window((output.boundary, a0, *drafts), CAUSAL))
    accepted = matched_prefix(drafts, verified)
    correction = verified[accepted : accepted + 1] if accepted < len(drafts) else []
    tokens = [a0, *drafts[:accepted], *correction]
    committed = output.extend(tokens)
    model.keep(state, committed)  # x0 and all but the new boundary token
    trace.dropped(rows + rows - committed)
    trace.round(offered=len(drafts), accepted=accepted, produced=len(tokens), committed=committed)
