"""The file that `gravbench tune` writes and `tuned` decodes by: what was measured, the plan, what for."""

from __future__ import annotations

from typing import Literal

import orjson
from pydantic import ConfigDict, Field

from gravbench.records import Record, Task


class Machine(Record):
    """What costs depend on beside the checkpoint."""

    backend: str
    engine: str
    device: str
    dtype: str
    threads: int
    cpu: str | None = None
    host_sha: str | None = None


class Estimate(Record):
    """A strategy on one task of the tuning suite, at one batch size.

    `cost` and `host` are of all its answers, in forwards of one row: that of the forwards, and what rounds
    spent outside them. `measured`: its answers were decoded; otherwise it is predicted of another's rounds.
    """

    arm: str
    task: Task
    batch: int
    tokens: float
    rounds: int
    cost: float
    host: float
    measured: bool = True

    @property
    def cost_tpf(self) -> float:
        """Decode tokens for the cost of a forward of one row; no clock is in it."""
        return self.tokens / self.cost

    @property
    def rate(self) -> float:
        """Decode tokens for the time of a forward of one row, rounds' work on the host included."""
        return self.tokens / (self.cost + self.host)


class Survival(Record):
    """Acceptance by position of a strategy on a task: entry j - 1 of each is for draft j.

    `reached` rounds had j - 1 drafts accepted and were not cut before; `survival` = P(accepted >= j).
    """

    arm: str
    task: Task
    reached: tuple[int, ...]
    survival: tuple[float, ...]


class Confirmed(Record):
    """Decode speedup over `ar` of an interleaved run: predicted, and measured with its interval."""

    arm: str
    predicted: float
    measured: float
    low: float
    high: float


class Setting(Record):
    """`gravbench.tuning/1`: what was measured, what follows, and for which checkpoint and machine."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    schema_id: Literal["gravbench.tuning/1"] = Field(default="gravbench.tuning/1", alias="schema")
    gravbench: str
    created_utc: str
    model: str
    model_digest: str
    machine: Machine
    suite: str
    suite_sha: str
    n_samples: int
    plan: dict[Task, str]
    """The strategy of each task, without its batch size."""
    batch: int = Field(ge=1)
    """Requests that decode together, which the plan was chosen for."""
    unit_ns: float | None = None
    """c(1) in nanoseconds; absent where the costs were given."""
    forward_cost: dict[int, float]
    """c(Q)/c(1) by rows Q, of one request."""
    batch_cost: dict[int, dict[int, float]] = Field(default_factory=dict)
    """c(N, Q)/c(1) by requests N in a forward and rows Q of each."""
    estimates: tuple[Estimate, ...]
    survival: tuple[Survival, ...] = ()
    confirmed: tuple[Confirmed, ...] = ()
    cautions: tuple[str, ...] = ()


def setting_json(setting: Setting) -> bytes:
    """The file's bytes."""
    document = setting.model_dump(mode="json", by_alias=True, exclude_none=True)
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
