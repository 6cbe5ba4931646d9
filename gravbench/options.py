"""The options of a run, declared once: what each means, and how it enters a run's identity.

The command line takes them, a run's identity holds them, and the command that asks the same question again
is made of them, all from this one model.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer
from pydantic.fields import FieldInfo

from gravbench.arms import MAX_BATCH
from gravbench.errors import UsageError
from gravbench.provenance import usable_cores
from gravbench.records import Record
from gravbench.store.schema import RunIdentity

DEFAULT_STRATEGIES = ("ar", "selfspec")
DEFAULT_MODEL = "gravity-tiny"
DEFAULT_BACKEND = "transformers"
MAX_SEED = 2**32 - 1


@dataclass(frozen=True, kw_only=True)
class Option:
    """How one field of `RunOptions` meets the user and the run's identity."""

    help: str
    identity: str | None = None
    """Field of `RunIdentity` that the option moves; `None`: it may differ between two sessions of one run."""
    spelled: bool = True
    """Whether that field holds the option as it was given, so that the command can be written again."""
    flag: str | None = None
    """Name on the command line, where it is not the field's."""
    metavar: str | None = None
    show_default: bool = False
    alone: bool = False
    """Of a single run, not of a sweep, which has an axis instead."""

    def flag_of(self, name: str) -> str:
        return self.flag or f"--{name.replace('_', '-')}"


@dataclass(frozen=True, kw_only=True)
class ErrorLimit:
    """How many samples may fail before the run counts as incomplete: a share of all, or a number."""

    share: float | None = None
    count: int | None = None

    def exceeded(self, failed: int, total: int) -> bool:
        """Whether `failed` of `total` samples is more than allowed."""
        allowed = self.count if self.count is not None else (self.share or 0.0) * total
        return failed > allowed

    def __str__(self) -> str:
        """As --max-errors takes it."""
        return str(self.count) if self.count is not None else f"{100 * (self.share or 0.0):g}%"


def parse_error_limit(text: str) -> ErrorLimit:
    """`1%` or `0.01` (a share of the samples) or `3` (a number of samples)."""
    if match := re.fullmatch(r"(\d+(?:\.\d+)?)%", text.strip()):
        share = float(match[1]) / 100
    elif re.fullmatch(r"\d+", text.strip()):
        return ErrorLimit(count=int(text))
    elif re.fullmatch(r"\d*\.\d+", text.strip()):
        share = float(text)
    else:
        raise UsageError(
            f"--max-errors: '{text}' is neither a share nor a number", hint="For example 1% or 3."
        )
    if share > 1:
        raise UsageError(f"--max-errors: '{text}' is more than all samples", hint="At most 100%.")
    return ErrorLimit(share=share)


Errors = Annotated[
    ErrorLimit,
    BeforeValidator(lambda given: parse_error_limit(given) if isinstance(given, str) else given),
    PlainSerializer(str),
]


class RunOptions(Record):
    """One `gravbench run`, defaults filled in."""

    suite: Annotated[
        str, Option(help="Suite to run; `gravbench suites list` names them.", identity="suite")
    ]  # fmt: skip
    strategies: Annotated[
        tuple[str, ...],
        Option(
            help="ar, selfspec, selfspec:block=16, ...; repeatable. Default: ar and selfspec.",
            identity="strategies",
            flag="--strategy",
        ),
    ] = ()
    """As given; `gravbench.runner.engine.check_strategies` makes arms of them."""
    model: Annotated[
        str | None,
        Option(
            help="gravity-tiny, a checkpoint folder or a hub id. Default: gravity-tiny.",
            identity="model_digest",
            spelled=False,
        ),
    ] = None
    backend: Annotated[
        str,
        Option(
            help="Way to run the model, with its options: transformers:cuda_graphs=yes.",
            identity="backend",
            show_default=True,
        ),
    ] = DEFAULT_BACKEND
    device: Annotated[str, Option(help="cpu, cuda or cuda:N.", identity="device", show_default=True)] = "cpu"
    dtype: Annotated[
        str, Option(help="float32, bfloat16 or float16.", identity="dtype", show_default=True)
    ] = "float32"
    threads: Annotated[
        int,
        Option(
            help="CPU threads of the model. Default: as many as the cores it may use.", identity="threads"
        ),
        Field(ge=1, le=1024),
    ] = Field(default_factory=usable_cores)
    out: Annotated[Path | None, Option(help="Run folder. Default: a new one under runs/.")] = None
    limit: Annotated[
        int | None,
        Option(help="Only so many samples, of all tasks in proportion.", identity="limit"),
        Field(ge=1),
    ] = None
    stratify: Annotated[
        str | None,
        Option(
            help="Attribute that --limit keeps the mixture of, e.g. layout.",
            identity="stratify",
            metavar="KEY",
        ),
    ] = None
    where: Annotated[
        str | None,
        Option(
            help="Only samples with this value of an attribute, e.g. split=test.",
            identity="where",
            metavar="KEY=VALUE",
        ),
    ] = None
    pages: Annotated[
        str | None,
        Option(help="Only samples whose id matches, e.g. 'page-0*'.", identity="pages", metavar="GLOB"),
    ] = None
    data: Annotated[
        Path | None,
        Option(
            help="Folder with OmniDocBench.json and images/. Default: the suite's own, or its place under "
            "GRAVBENCH_DATA.",
            identity="samples_sha",
            spelled=False,
            metavar="DIR",
        ),
    ] = None
    allow_drift: Annotated[
        tuple[str, ...],
        Option(
            help="suite: run a changed copy of the data, named as such.",
            identity="samples_sha",
            spelled=False,
            metavar="FIELD",
        ),
    ] = ()
    layout: Annotated[
        str,
        Option(
            help="Where regions of pages come from: ground-truth, pp-doclayout-v3, whitespace, none.",
            identity="layout.name",
            show_default=True,
        ),
    ] = "ground-truth"
    layout_model: Annotated[
        str | None, Option(help="Layout checkpoint: folder or hub id.", identity="layout.model")
    ] = None
    batch_size: Annotated[
        int,
        Option(
            help="Requests that decode together, in every strategy alike.",
            identity="strategies",
            spelled=False,
            show_default=True,
            alone=True,
        ),
        Field(ge=1, le=MAX_BATCH),
    ] = 1
    concurrency: Annotated[
        str,
        Option(
            help="Requests under way at a server at once, e.g. 1,2,4,8: every strategy at each of them.",
            identity="strategies",
            spelled=False,
            alone=True,
        ),
        Field(pattern=r"^([1-9][0-9]{0,3}(,[1-9][0-9]{0,3})*)?$"),
    ] = ""
    """Such an arm is written `ar:batch=4`."""
    url: Annotated[
        tuple[str, ...],
        Option(help="URL of a server, or STRATEGY=URL; repeatable. Samples are spread over several."),
    ] = ()
    shard: Annotated[
        str | None,
        Option(
            help="Only this part of the plan, e.g. 1/4; `gravbench merge` puts the parts together.",
            identity="shard",
            metavar="I/N",
            alone=True,
        ),
        Field(pattern=r"^[1-9][0-9]{0,3}/[1-9][0-9]{0,3}$"),
    ] = None
    repeats: Annotated[
        int,
        Option(help="Times that every strategy answers every sample.", identity="repeats", show_default=True),
        Field(ge=1, le=1000),
    ] = 1
    seed: Annotated[
        int,
        Option(help="Seed of the order and the bootstrap.", identity="seed", show_default=True),
        Field(ge=0, le=MAX_SEED),
    ] = 0
    max_errors: Annotated[
        Errors, Option(help="Failed samples allowed before exit 3: 1% or a number.", show_default=True)
    ] = ErrorLimit(share=0.01)
    retry_failed: Annotated[
        bool, Option(help="Decode the failed samples of the run again; the first attempts stay recorded.")
    ] = False
    fresh: Annotated[bool, Option(help="A new run, even if one could be continued.")] = False
    runs_root: Path = Path("runs")

    def but(self, **changes: Any) -> RunOptions:
        """These options with others in some places, checked like the first ones."""
        return RunOptions.model_validate({**dict(self), **changes})


def declared_options() -> Iterator[tuple[str, FieldInfo, Option]]:
    """Name, field and declaration of every option that a user can give."""
    for name, field in RunOptions.model_fields.items():
        for mark in field.metadata:
            if isinstance(mark, Option):
                yield name, field, mark


def options_of(identity: RunIdentity, **others: Any) -> RunOptions:
    """The options that a run of this identity was asked with; `others` where it does not hold them (folders,
    checkpoints) or where they shall be different."""
    asked: dict[str, Any] = {}
    for name, _, option in declared_options():
        top, _, _ = (option.identity or "").partition(".")
        if option.identity and option.spelled and getattr(identity, top) is not None:
            asked[name] = attrgetter(option.identity)(identity)
    return RunOptions(**{**asked, **others})


def command_of(options: RunOptions) -> str:
    """The command that asks for these options; what is left at its default is left out."""
    words = ["gravbench", "run"]
    for name, field, option in declared_options():
        value, flag = getattr(options, name), option.flag_of(name)
        if field.is_required() or value != field.get_default(call_default_factory=True):
            if isinstance(value, bool):
                words += [flag]
            else:
                values = value if isinstance(value, tuple) else (value,)
                words += [word for given in values for word in (flag, str(given))]
    return shlex.join(words)
