"""The verbs about running and data, declared: what a user may give, and which function takes it.

Bodies live in the `*_command` modules, imported when a verb runs; help needs none of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from gravbench.options import RunOptions


@dataclass(frozen=True, kw_only=True)
class Verb:
    """Base of declarations. Fields are parameters, the docstring is the help, `body` takes what was given."""

    command: str = ""
    """The command that gave the others, as a shell takes it; empty where no command did. No parameter."""
    body: ClassVar[str]
    """`module:function` in this package; the function returns the exit code."""
    alone: ClassVar[bool]
    """Whether a field `options: RunOptions` stands for all options of a run, or only those of a sweep."""

    def __init_subclass__(cls, *, body: str, alone: bool = True) -> None:
        cls.body, cls.alone = body, alone


JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
QuietFlag = Annotated[bool, typer.Option("--quiet", help="No progress and no table, only the run folder.")]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.", show_default=False)]


ReportOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Also write the report, one HTML file.", show_default=False),
]


@dataclass(frozen=True, kw_only=True)
class Run(Verb, body="run_command:run_suite"):
    """Run strategies over a suite in interleaved pairs; print quality, acceptance and speed.

    Repeating the same command continues an unfinished run.
    """

    options: RunOptions
    report: ReportOption = None
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Only say what would run: samples, arms, budgets, disk, time, memory."
        ),
    ] = False
    json: JsonFlag = False
    quiet: QuietFlag = False


@dataclass(frozen=True, kw_only=True)
class Sweep(Verb, body="run_command:sweep", alone=False):
    """A curve over block sizes and strategies: all arms interleaved in one session, one run folder.

    Further strategies (`--strategy`) run as they are; ar is always there.
    """

    options: RunOptions
    blocks: Annotated[str, typer.Option(help="Block sizes, comma-separated.")] = "4,8,16,32"
    batch_sizes: Annotated[
        str,
        typer.Option(help="Batch sizes, comma-separated; ar runs at each of them too, as the measure."),
    ] = "1"
    vary: Annotated[
        list[str] | None,
        typer.Option(
            help="Strategy to run at every block size; repeatable. Default: selfspec.", show_default=False
        ),
    ] = None
    json: JsonFlag = False
    quiet: QuietFlag = False


@dataclass(frozen=True, kw_only=True)
class Merge(Verb, body="run_command:merge_runs"):
    """Make one run of all shards of a plan, wherever they ran: the scores and counters of one process."""

    shards: Annotated[
        list[Path],
        typer.Argument(
            metavar="SHARD...", help="Run folders of run --shard, all of them.", show_default=False
        ),
    ]
    out: Annotated[Path, typer.Option(metavar="RUN", help="Folder of the whole run.", show_default=False)]
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of the pages. Default: where the first shard read them."),
    ] = None
    json: JsonFlag = False


@dataclass(frozen=True, kw_only=True)
class Score(Verb, body="run_command:score_run"):
    """Score a finished run again from its records. Loads no model; refuses other pages than the run's."""

    run: RunArgument
    suite: Annotated[
        str | None,
        typer.Option(help="Suite of the references. Default: the run's own.", show_default=False),
    ] = None
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder of the run's pages. Default: where the run read them.",
            show_default=False,
        ),
    ] = None
    json: JsonFlag = False


@dataclass(frozen=True, kw_only=True)
class Import(Verb, body="import_command:import_predictions"):
    """Make a run of answers that another program wrote; score, compare, gate and report take it as any."""

    suite: Annotated[str, typer.Option(help="Suite that was answered.", show_default=False)]
    predictions: Annotated[
        Path,
        typer.Option(metavar="PATH", help="Folder of Markdown, or JSON Lines.", show_default=False),
    ]
    arm: Annotated[str, typer.Option(help="Name of the arm: who answered.", show_default=False)]
    out: Annotated[
        Path,
        typer.Option(metavar="RUN", help="Run folder; a further import adds an arm.", show_default=False),
    ]
    of: Annotated[
        str | None,
        typer.Option(metavar="ARM", help="Which arm of a file that holds several.", show_default=False),
    ] = None
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of the suite's pages, as for run.", show_default=False),
    ] = None
    where: Annotated[
        str | None,
        typer.Option(metavar="KEY=VALUE", help="Only samples with this attribute.", show_default=False),
    ] = None
    pages: Annotated[
        str | None, typer.Option(metavar="GLOB", help="Only samples whose id matches.", show_default=False)
    ] = None
    allow_drift: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD", help="suite: a changed copy of the data, named as such.", show_default=False
        ),
    ] = None
    max_errors: Annotated[
        str, typer.Option(help="Samples that may lack a prediction before exit 3: a share or a number.")
    ] = "1%"
    json: JsonFlag = False


@dataclass(frozen=True, kw_only=True)
class Export(Verb, body="run_command:export_run"):
    """Give a finished run back: lines to compare byte for byte, or what other tools read."""

    run: RunArgument
    clockless: Annotated[
        bool,
        typer.Option(
            "--clockless", help="Predictions, token ids, counters and scores; nothing a clock wrote."
        ),
    ] = False
    format: Annotated[
        str | None,
        typer.Option(
            help="jsonl, parquet, omnidocbench (Markdown, and the official result files) or olmocr.",
            show_default=False,
        ),
    ] = None
    out: Annotated[
        Path | None,
        typer.Option(help="File or folder to write. Default of --clockless: stdout.", show_default=False),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Doctor(Verb, body="doctor_command:run_doctor"):
    """Check this machine: versions, disk, suites, the shipped model."""

    forward_cost: Annotated[
        bool, typer.Option("--forward-cost", help="Also measure c(Q)/c(1), the cost of a forward on Q rows.")
    ] = False
    model: Annotated[
        str | None,
        typer.Option(help="gravity-tiny or a checkpoint folder. Default: gravity-tiny.", show_default=False),
    ] = None
    threads: Annotated[
        int | None,
        typer.Option(
            min=1, max=1024, help="CPU threads of the model. Default: as many as the cores it may use."
        ),
    ] = None
    json: JsonFlag = False


@dataclass(frozen=True, kw_only=True)
class Tune(Verb, body="tune_command:tune"):
    """Find the strategy that pays on this machine, by task; write the setting of `--strategy tuned`.

    Costs of forwards are measured, candidates decode the suite, the best are run against ar.
    """

    suite: Annotated[str, typer.Option(help="Suite to tune on: never the one that is reported.")] = (
        "crops-tune"
    )
    out: Annotated[Path, typer.Option(metavar="FILE", help="The setting.")] = Path("tuning.json")
    strategy: Annotated[
        list[str] | None,
        typer.Option(help="Candidate; repeatable. Default: all that verify exactly.", show_default=False),
    ] = None
    blocks: Annotated[str, typer.Option(help="Block sizes of selfspec, comma-separated.")] = "2,4,6,8,12,16"
    batch_sizes: Annotated[
        str, typer.Option(help="Batch sizes to choose from, comma-separated; the fastest is taken.")
    ] = "1"
    model: Annotated[
        str | None,
        typer.Option(help="gravity-tiny, a checkpoint folder or a hub id.", show_default=False),
    ] = None
    backend: Annotated[str, typer.Option(help="Way to run the model, with its options.")] = "transformers"
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:N.")] = "cpu"
    dtype: Annotated[str, typer.Option(help="float32, bfloat16 or float16.")] = "float32"
    threads: Annotated[
        int | None,
        typer.Option(
            min=1, max=1024, help="CPU threads of the model. Default: as many as the cores it may use."
        ),
    ] = None
    limit: Annotated[int | None, typer.Option(min=1, help="Only so many samples.", show_default=False)] = None
    forward_cost: Annotated[
        Path | None,
        typer.Option(
            help="Costs instead of measured ones: output of doctor --forward-cost --json.", show_default=False
        ),
    ] = None
    keep: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep the two runs in this new folder.", show_default=False),
    ] = None
    json: JsonFlag = False
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress and no table.")] = False


@dataclass(frozen=True, kw_only=True)
class SuitesList(Verb, body="suites_command:list_all"):
    """Name the suites this installation can find."""

    json: JsonFlag = False


@dataclass(frozen=True, kw_only=True)
class SuitesShow(Verb, body="suites_command:show"):
    """Show one suite: samples by task, prompts, budgets, digest."""

    name: Annotated[str, typer.Argument(help="Suite name.", show_default=False)]
    json: JsonFlag = False


@dataclass(frozen=True, kw_only=True)
class SuitesVerify(Verb, body="suites_command:verify"):
    """Check a suite's data: digests, annotations, every image. Exit 5 when something is wrong."""

    name: Annotated[str, typer.Argument(help="Suite name.", show_default=False)]
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of its pages.", show_default=False)
    ] = None
    json: JsonFlag = False


@dataclass(frozen=True, kw_only=True)
class SuitesFetch(Verb, body="suites_command:fetch"):
    """Download a suite's pages at their pinned revision, resume, verify. Research data, not ours to ship."""

    name: Annotated[str, typer.Argument(help="Suite name.", show_default=False)]
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder to fill. Default: its place in GRAVBENCH_DATA.", show_default=False
        ),
    ] = None
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False


@dataclass(frozen=True, kw_only=True)
class SuitesMake(Verb, body="suites_command:make"):
    """Make a suite of images and their ground truth; list what was left out, and why."""

    images: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder of images. Without --truth, NAME.txt, .md, .html or .tex lies beside NAME.png.",
            show_default=False,
        ),
    ] = None
    truth: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Ground truth: CSV, TSV, JSON, JSON Lines, Parquet, or a folder that `datasets` saved.",
            show_default=False,
        ),
    ] = None
    name: Annotated[
        str | None, typer.Option(help="Name of the suite. Default: that of the folder or file.")
    ] = None
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="New folder. Default: ./NAME.", show_default=False),
    ] = None
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="ROLE=COLUMN,...",
            help="Roles: image, text, task, split, id. Further columns become attributes.",
            show_default=False,
        ),
    ] = None
    prompt: Annotated[
        list[str] | None,
        typer.Option(metavar="TASK=TEXT", help="Default: the model's own; repeatable.", show_default=False),
    ] = None
    max_new_tokens: Annotated[
        list[str] | None,
        typer.Option(metavar="TASK=N", help="Default: text 512, table and formula 4096.", show_default=False),
    ] = None
    scorer: Annotated[str, typer.Option(help="Who scores crops: crops or crops-quick.")] = "crops"
    pages: Annotated[
        bool,
        typer.Option("--pages", help="Whole pages, images or PDFs; NAME.md, in --truth DIR, is their truth."),
    ] = False
    dpi: Annotated[int, typer.Option(min=36, max=1200, help="Resolution that PDFs are rendered at.")] = 150
    encoding: Annotated[str, typer.Option(help="Of text files without a byte-order mark.")] = "utf-8"
    json: JsonFlag = False


@dataclass(frozen=True, kw_only=True)
class Train(Verb, body="train_command:run_training"):
    """Train a model that reads and drafts: AR and block diffusion jointly, on synthetic crops."""

    out: Annotated[
        Path, typer.Option(help="Training folder; an unfinished one continues.", show_default=False)
    ]
    init: Annotated[
        Path | None,
        typer.Option(
            help="GLM-OCR checkpoint folder to start from. Default: a new small model.", show_default=False
        ),
    ] = None
    budget: Annotated[str, typer.Option(help="Processor time of each process: 90m, 2h or seconds.")] = "1h"
    processes: Annotated[int, typer.Option(min=1, help="Processes, one core each.")] = 1
    seed: Annotated[int, typer.Option(min=0, help="Seed of crops, noise and weights.")] = 0
    block: Annotated[int, typer.Option(min=1, help="Block size runs will draft by default.")] = 8
    matrix_lr: Annotated[
        float | None,
        typer.Option(min=0.0, help="Muon rate. Default: 0.02, with --init 0.001.", show_default=False),
    ] = None
    other_lr: Annotated[
        float | None,
        typer.Option(min=0.0, help="AdamW rate. Default: 2e-3, with --init 1e-4.", show_default=False),
    ] = None
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu"
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress on stderr.")] = False
