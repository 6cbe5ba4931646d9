"""The certificate of a run: every committed token is what its own prefix calls for.

Two engines part at near-ties and then write on differently, but validly, so whole texts cannot show a fault
of a verifier. Here each output is teacher-forced once. A token passes if it is the argmax of the prefix that
stands before it, or no further below that than `tau`; then whatever drafted it, AR could have written it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Literal

from pydantic import Field

from gravbench.protocols import ForcedPass, TokenGap
from gravbench.records import Piece, Record, Rounds
from gravbench.store.files import parse_record, read_bytes, write_atomic
from gravbench.store.schema import GenRecord, StoredRecord, record_bytes, sha256_of

Origin = Literal["prefill", "seed", "draft", "own", "untold"]
"""Who proposed a token: the prefill, the exact row before the drafts, a draft that was accepted, the verifier
itself; `untold` where rounds are hidden."""

FILE = "certificate.json"


class Exceptional(Record):
    """A token that is not the argmax of its prefix. `position` counts from 0, the prefill's own token, within
    the sample or region; `round` from 0. `gap` = logit of `best_id` - logit of `token_id`."""

    sample_id: str
    region_id: str = ""
    rep: int
    position: int
    round: int | None
    """`None`: of the prefill, or not told."""
    origin: Origin
    token_id: int
    best_id: int
    gap: float
    near_tie: bool


class Certificate(Record):
    """One strategy under one pass: `tokens` = `argmax` + `near_ties` + `violations`; the first two pass."""

    arm: str
    precision: str
    """Of the teacher-forced pass: float32, or that of the run."""
    tau: float
    """Largest gap of a near-tie, in logits."""
    outputs: int
    untold: int
    """Outputs without token ids, which nothing can be said of."""
    tokens: int
    argmax: int
    near_ties: int
    violations: int
    share: float | None
    """(argmax + near_ties) / tokens; `None` without tokens."""
    worst_gap: float
    """0 where every token is the argmax."""
    by_origin: dict[str, int]
    """Violations by who proposed the token."""
    exceptions: tuple[Exceptional, ...]
    """Near-ties too, in the order of samples and positions."""

    @property
    def words(self) -> str:
        """`9 of 9 tokens are the argmax of their own prefix or a near-tie (0 within 0.0001, float32)`."""
        wrong = ", ".join(f"{count} of {origin}" for origin, count in self.by_origin.items())
        return (
            f"{self.argmax + self.near_ties:,} of {self.tokens:,} tokens are the argmax of their own prefix "
            f"or a near-tie ({self.near_ties} within {self.tau:.2g}, {self.precision})"
            + (f"; not so: {wrong}" if wrong else "")
        )


class Certificates(StoredRecord):
    """`certificate.json` of a run folder: derived, may be deleted and made again."""

    schema_id: Literal["gravbench.certificate/1"] = Field(default="gravbench.certificate/1", alias="schema")
    run_id: str
    answers_sha: str
    arms: tuple[Certificate, ...]
    left_out: dict[str, str] = Field(default_factory=dict)
    """Strategies that do not promise the tokens of AR -> why."""

    @property
    def by_arm(self) -> dict[str, tuple[Certificate, ...]]:
        """Certificates of each strategy, in the order of passes."""
        names = dict.fromkeys(own.arm for own in self.arms)
        return {arm: tuple(own for own in self.arms if own.arm == arm) for arm in names}

    @property
    def violations(self) -> int:
        return sum(own.violations for own in self.arms)


def certify(arm: str, records: Iterable[GenRecord], forced: ForcedPass) -> Certificate:
    """Hold every token of one arm against its own prefix; failed samples have none."""
    outputs = untold = tokens = 0
    worst = 0.0
    found: list[Exceptional] = []
    for record in records:
        for piece, trace in record.answers:
            outputs += 1
            if piece.hides_tokens or not piece.token_ids:
                untold += 1
                continue
            gaps = forced.gaps(piece.request_id(record.sample_id), piece.token_ids)
            tokens += len(gaps)
            worst = max(worst, *(one.gap for one in gaps))
            found += _exceptions(record, piece, gaps, trace.rounds, tau=forced.tau)
    near = sum(one.near_tie for one in found)
    wrong = [one for one in found if not one.near_tie]
    return Certificate(
        arm=arm,
        precision=forced.precision,
        tau=forced.tau,
        outputs=outputs,
        untold=untold,
        tokens=tokens,
        argmax=tokens - len(found),
        near_ties=near,
        violations=len(wrong),
        share=(tokens - len(wrong)) / tokens if tokens else None,
        worst_gap=worst,
        by_origin=dict(sorted(Counter(one.origin for one in wrong).items())),
        exceptions=tuple(found),
    )


def _exceptions(
    record: GenRecord, piece: Piece, gaps: Sequence[TokenGap], rounds: Rounds | None, *, tau: float
) -> Iterator[Exceptional]:
    for position, (token, one) in enumerate(zip(piece.token_ids, gaps, strict=True)):
        if one.best_id != token and one.gap > 0:
            number, origin = origin_of(position, rounds)
            yield Exceptional(
                sample_id=record.sample_id,
                region_id=piece.region_id,
                rep=record.rep,
                position=position,
                round=number,
                origin=origin,
                token_id=token,
                best_id=one.best_id,
                gap=one.gap,
                near_tie=one.gap <= tau,
            )


def origin_of(position: int, rounds: Rounds | None) -> tuple[int | None, Origin]:
    """The round that committed a token, and who proposed it there."""
    if position == 0:
        return None, "prefill"
    if rounds is None:
        return None, "untold"
    ends = list(accumulate(rounds.committed, initial=1))
    number = next((n for n, end in enumerate(ends[1:]) if position < end), None)
    if number is None:
        return None, "untold"
    place = position - ends[number] - rounds.seeds[number]
    if place < 0:
        return number, "seed"
    return number, "draft" if place < rounds.accepted[number] else "own"


def answers_sha(records: Iterable[GenRecord]) -> str:
    """Hash of all answers: a certificate is of these and of no others."""
    return sha256_of(
        sorted((r.sample_id, r.rep, r.arm, r.text_sha, sha256_of(list(r.token_ids))) for r in records)
    )


def write_certificates(run_dir: Path, certificates: Certificates) -> Path:
    """Write `certificate.json` into a run folder; its path."""
    path = run_dir / FILE
    write_atomic(path, record_bytes(certificates) + b"\n")
    return path


def stored_certificates(
    run_dir: Path, records: Iterable[GenRecord]
) -> tuple[Certificates | None, str | None]:
    """The certificate in a run folder, and what is wrong with it: of other answers it is none."""
    path = run_dir / FILE
    if not path.is_file():
        return None, None
    found = parse_record(read_bytes(path), Certificates, where=str(path))
    if found.answers_sha != answers_sha(records):
        return (
            None,
            f"{FILE} is of other answers than these, so it is left out; gravbench audit makes it again",
        )
    return found, None
