"""What drafting did: counters summed over samples, their ratios, and acceptance round by round.

Decode tokens are `tokens_out - 1`: prefill's own token is in no numerator, the first EOS counts once.

Positions after the end of the output tell nothing about the drafter: in a round cut by EOS or the budget
they leave the risk set (right-censored), otherwise short outputs would bend the tail downwards. Rounds that
were rejected before the end was reached stay in it, so a share of the rounds at risk would lie too low at
every position: P(accepted >= j) is the running product of the conditional shares (Kaplan-Meier). A round that
committed less than it accepted was cut: the last of a request, of which a page has one a region.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from gravbench.records import Counters, Record, summed_counters
from gravbench.store.schema import GenRecord

FLOOR_ACCEPTED_PER_ROUND = 0.5
FLOOR_ACCEPTANCE_RATE = 0.1
FLOOR_MIN_ROUNDS = 20
"""A drafter below both, over at least this many rounds, is not drafting: chance alone (loops, runs of one
character) gives a few tenths of a token a round, and below half a token no draft pays for its forward."""


class PositionAcceptance(Record):
    """Draft position `j` (from 1). `conditional` = accepted / reached, P(accepted >= j | accepted >= j - 1).

    `unconditional` = P(accepted >= j) as `Acceptance.survival` has it, `None` where that has nothing. Older
    documents hold accepted / at_risk, which is too low; `survival` is right for them too.
    `at_risk` rounds offered j and were not cut before it; of them `reached` had j - 1 accepted and `accepted`
    had j.
    """

    position: int
    at_risk: int
    reached: int
    accepted: int
    unconditional: float | None
    conditional: float | None


class Acceptance(Record):
    """`histogram[a]` drafting rounds accepted `a` tokens; `committed[c]` rounds committed `c`.

    Drafts that were accepted behind the end of the output count in `histogram`: the verifier agreed with
    them, and trimming the output takes nothing back.
    """

    histogram: dict[int, int]
    committed: dict[int, int]
    positions: tuple[PositionAcceptance, ...]

    @property
    def survival(self) -> dict[int, float]:
        """Draft position -> P(accepted >= position), the running product of `conditional` (Kaplan-Meier).

        Absent from the first position on that no round reached, unless nothing gets that far: then 0.
        """
        found: dict[int, float] = {}
        share = 1.0
        for place in self.positions:
            if share and place.conditional is None:
                break
            share *= place.conditional or 0.0
            found[place.position] = share
        return found

    @property
    def first_rejections(self) -> dict[int, int]:
        """Draft position (from 1) -> rounds whose first rejected draft it was; absent where there is none."""
        rejected = {p.position: p.reached - p.accepted for p in self.positions}
        return {position: n for position, n in rejected.items() if n}

    @property
    def conditional(self) -> dict[int, float]:
        """Draft position -> accepted there / reached; absent where no round reached it."""
        return {p.position: p.conditional for p in self.positions if p.conditional is not None}


def acceptance(records: Iterable[GenRecord]) -> Acceptance | None:
    """Acceptance of the ok records; `None` when no round offered a draft."""
    histogram: Counter[int] = Counter()
    commits: Counter[int] = Counter()
    at_risk: Counter[int] = Counter()
    reached: Counter[int] = Counter()
    accepted_at: Counter[int] = Counter()
    for (offered, accepted, committed, seeds), n in _rounds(records).items():
        commits[committed] += n
        if not offered:
            continue
        histogram[accepted] += n
        cut = committed < accepted + seeds + 1
        seen = min(accepted, max(committed - seeds, 0)) if cut else accepted
        for position in range(1, (seen if cut else offered) + 1):
            at_risk[position] += n
            reached[position] += n * (position <= seen + 1)
            accepted_at[position] += n * (position <= seen)
    if not histogram:
        return None
    counted = Acceptance(
        histogram=dict(sorted(histogram.items())),
        committed=dict(sorted(commits.items())),
        positions=tuple(
            PositionAcceptance(
                position=position,
                at_risk=at_risk[position],
                reached=reached[position],
                accepted=accepted_at[position],
                unconditional=None,
                conditional=accepted_at[position] / reached[position] if reached[position] else None,
            )
            for position in sorted(at_risk)
        ),
    )
    return _with_survival(counted)


def _with_survival(counted: Acceptance) -> Acceptance:
    survival = counted.survival
    positions = (p.model_copy(update={"unconditional": survival.get(p.position)}) for p in counted.positions)
    return counted.model_copy(update={"positions": tuple(positions)})


def _rounds(records: Iterable[GenRecord]) -> Counter[tuple[int, int, int, int]]:
    """Rounds of each kind: offered, accepted, committed, seeds. Hidden rounds are not counted."""
    found: Counter[tuple[int, int, int, int]] = Counter()
    for rounds in (trace.rounds for record in records for _, trace in record.answers):
        if rounds is not None:
            found.update(zip(rounds.offered, rounds.accepted, rounds.committed, rounds.seeds, strict=True))
    return found


COUNTED = tuple(name for name in Counters.model_fields if name != "own")


class CounterSummary(Record):
    """Summed counters of one strategy, and their ratios. A ratio is `None` when its denominator is 0.

    * `tpf_all` = decode tokens / full-model decode forwards of every kind
    * `accepted_draft` = accepted draft tokens / rounds (no seed, no bonus); drafts accepted behind the end of
      an output count, here and in `accept_hist`: trimming takes nothing back
    * `tau_round` = committed tokens / rounds (all a round appended, after trimming at the stop)
    * `acceptance_rate` = accepted / offered draft tokens
    * `chars_per_forward` = characters of the final text / full-model decode forwards
    * `requests_per_forward` = decode forwards of all requests / forwards that were run for them: how full the
      batches were, 1 without batches; it depends on who was under way together, as no other counter does
    * `tau_bonus` = `accepted_draft` + 1
    * `accept_hist[a]` = rounds that accepted `a` drafts, of those that offered any
    * `pos_accept[j]` = share that accepted draft `j` (from 1), of the rounds that accepted `j - 1`
    * `first_reject_pos[j]` = rounds whose first rejected draft was `j`

    The last four are absent where no draft was offered. Rounds cut by EOS or the budget count in `pos_accept`
    and `first_reject_pos` up to the cut alone.
    """

    tpf_all: float | None = None
    accepted_draft: float | None = None
    tau_round: float | None = None
    acceptance_rate: float | None = None
    chars_per_forward: float | None = None
    requests_per_forward: float | None = None
    tau_bonus: float | None = None
    accept_hist: dict[int, int] | None = None
    pos_accept: dict[int, float] | None = None
    first_reject_pos: dict[int, int] | None = None
    samples: int
    characters: int
    decode_tokens: int
    decode_forwards: int
    loops: int
    stopped_by_length: int
    requests: int
    tokens_out: int
    rounds: int
    fwd_vision: int
    fwd_prefill: int
    fwd_draft: int
    fwd_verify: int
    fwd_denoise: int
    fwd_cache_write: int
    fwd_head: int
    rows_prefill: int
    rows_draft: int
    rows_verify: int
    rows_denoise: int
    rows_cache_write: int
    draft_offered: int
    draft_accepted: int
    ar_tokens: int
    tokens_discarded_after_stop: int
    kv_rows_freed: int
    prompt_tokens: int
    vision_tokens: int
    rows_head: int = 0
    tree_nodes: int = 0
    own: dict[str, float] | None = None
    """Counts that the strategy alone keeps; absent where it keeps none."""


def summarise_counters(records: Iterable[GenRecord]) -> CounterSummary:
    """Counters summed over the ok records; failed ones are left out."""
    counts = [(record, record.counters) for record in records]
    ok = [record for record, own in counts if own is not None]
    counted = [own for _, own in counts if own is not None]
    totals = {name: sum(getattr(c, name) for c in counted) for name in COUNTED}
    tokens = sum(c.decode_tokens for c in counted)
    forwards = sum(c.decode_forwards for c in counted)
    characters = sum(len(record.text) for record in ok)
    rounds = totals["rounds"]
    drafts = acceptance(ok)
    return CounterSummary(
        tpf_all=_ratio(sum(tokens_in_forwards(c) for c in counted), forwards),
        accepted_draft=_ratio(totals["draft_accepted"], rounds),
        tau_round=_ratio(sum(tokens_in_rounds(c) for c in counted), rounds),
        acceptance_rate=_ratio(totals["draft_accepted"], totals["draft_offered"]),
        chars_per_forward=_ratio(characters, forwards),
        requests_per_forward=_occupancy(ok),
        tau_bonus=_ratio(totals["draft_accepted"] + rounds, rounds) if totals["draft_offered"] else None,
        accept_hist=drafts.histogram if drafts else None,
        pos_accept=drafts.conditional if drafts else None,
        first_reject_pos=drafts.first_rejections if drafts else None,
        samples=len(ok),
        characters=characters,
        decode_tokens=tokens,
        decode_forwards=forwards,
        loops=sum(record.loop_flag for record in ok),
        stopped_by_length=sum(record.stop_reason == "length" for record in ok),
        own=summed_counters(counted).own or None,
        **totals,
    )


def tells_nothing(records: Sequence[GenRecord]) -> bool:
    """Whether these are imports of which none tells its counters."""
    return any(r.imported for r in records) and all(r.counters is None for r in records)


def tokens_in_rounds(c: Counters) -> int:
    """Decode tokens whose rounds were counted; 0 where an engine tells tokens and no rounds."""
    return c.decode_tokens if c.rounds else 0


def tokens_in_forwards(c: Counters) -> int:
    """Decode tokens whose forwards were counted; 0 where an engine tells tokens and no forwards."""
    return c.decode_tokens if c.decode_forwards else 0


def hides_rounds(record: GenRecord) -> bool:
    """Whether an ok record has decode tokens and no log of the rounds that made them."""
    return any(trace.rounds is None and trace.counters.decode_tokens > 0 for _, trace in record.answers)


def hidden_notes(records_by_arm: Iterable[Sequence[GenRecord]]) -> tuple[str, ...]:
    """One for each strategy whose engine keeps its rounds to itself: what there is, and what is missing."""
    found = []
    for records in records_by_arm:
        ok = [record for record in records if record.status == "ok"]
        hidden = sum(map(hides_rounds, ok))
        if hidden:
            found.append(
                f"{ok[0].arm}: the engine hid the rounds of {hidden} of {len(ok)} samples: their totals are "
                "counted as far as it tells them; acceptance by position, the histogram and counts on common "
                "tokens leave them out"
            )
        found += [
            f"{ok[0].arm}: {name} of {n} of {len(ok)} samples not told: {reason}"
            for (name, reason), n in sorted(_untold(ok).items())
        ]
    return tuple(found)


def _untold(records: Iterable[GenRecord]) -> Counter[tuple[str, str]]:
    """Samples in which a server hides token ids, their number or times, by name and reason."""
    return Counter(
        told
        for record in records
        for told in {item for _, trace in record.answers for item in trace.hidden.items()}
        if told[0] in ("forwards", "times", "token_ids", "tokens_out")
    )


def _occupancy(records: Iterable[GenRecord]) -> float | None:
    """Decode forwards / their shares, over the records that measured both; `None` where none did."""
    known = [
        (record.counters.decode_forwards, record.times.forward_share)
        for record in records
        if record.counters is not None and record.times is not None and record.times.forward_share
    ]
    run = sum(share for _, share in known if share is not None)
    return sum(forwards for forwards, _ in known) / run if run else None


def _ratio(numerator: int, denominator: int) -> float | None:
    return numerator / denominator if denominator else None


def at_acceptance_floor(counters: CounterSummary) -> bool:
    """Whether a drafting strategy accepts so little that its drafts look like chance."""
    if counters.draft_offered == 0 or counters.rounds < FLOOR_MIN_ROUNDS:
        return False
    per_round = counters.draft_accepted / counters.rounds
    rate = counters.draft_accepted / counters.draft_offered
    return per_round < FLOOR_ACCEPTED_PER_ROUND and rate < FLOOR_ACCEPTANCE_RATE
