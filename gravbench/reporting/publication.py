"""Published comparisons, `reports/YYYY-MM-slug/`: comparison.json that names no machine, and its page.

Names below the working folder stay, relative to it; any other absolute path is `<path>`. What models wrote,
and ground truth, is data and stays as it is.
"""

from __future__ import annotations

import hashlib
import io
import re
import shlex
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from gravbench.analysis.comparison import FieldDifference
from gravbench.errors import DataError, EngineError, UsageError
from gravbench.olmocr.renderers import chromium_command
from gravbench.reporting.document import Answer, GallerySample, GatePart, PairPart, ReportDocument, RunPart
from gravbench.reporting.gallery_pack import visible
from gravbench.reporting.html import render_report
from gravbench.reporting.verdicts import headline
from gravbench.store.files import make_folder, parse_record, write_atomic
from gravbench.store.schema import record_bytes

HIDDEN = "<path>"
HOST = "host_sha"

_QUOTED = re.compile(r"(?<=[\"'])(?:~?/|\.\./)[^\"'\n]*")
"""A quoted path may hold blanks."""
_BARE = re.compile(r"(?<![\w./~<>%-])(?:file://)?(?:~?/|(?:\.\./)+)[\w.~+@%-][^\s\"'`,;:()\[\]{}<>|]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortener:
    """`known` are paths of the document, longest first: they are found whatever characters they hold."""

    working: str
    known: tuple[str, ...]

    def path(self, path: str) -> str:
        """Relative to the working folder, or `HIDDEN`."""
        if path == self.working:
            return "."
        inside = path.removeprefix(self.working.rstrip("/") + "/")
        return inside if inside != path and ".." not in inside.split("/") else HIDDEN

    def text(self, text: str) -> str:
        """Every path in a text; slashes of units, fractions and addresses of the web stay."""
        for path in self.known:
            text = text.replace(path, self.path(path))
        text = _QUOTED.sub(lambda found: self.path(found[0]), text)
        return _BARE.sub(lambda found: self.path(found[0]), text)

    def command(self, line: str) -> str:
        """A shell line, word by word."""
        try:
            words = shlex.split(line)
        except ValueError:
            return self.text(line)
        return " ".join(word if HIDDEN in word else shlex.quote(word) for word in self.words(words))

    def words(self, words: Iterable[str]) -> tuple[str, ...]:
        """Words of a command; one that is a path, or an option with one, is taken whole."""
        return tuple(self._word(word) for word in words)

    def anything(self, value: Any) -> Any:
        """Every text of a JSON value."""
        if isinstance(value, str):
            whole = _is_path(value) and ": " not in value and "\n" not in value
            return self.path(value) if whole else self.text(value)
        if isinstance(value, dict):
            return {key: self.anything(own) for key, own in value.items()}
        return [self.anything(own) for own in value] if isinstance(value, list | tuple) else value

    def _word(self, word: str) -> str:
        option, equals, rest = word.partition("=")
        if equals and option.startswith("-") and _is_path(rest):
            return f"{option}={self.path(rest)}"
        return self.path(word) if _is_path(word) else self.text(word)


def public(document: ReportDocument, *, working: Path) -> ReportDocument:
    """The document as it may be published: a pure function of it and of the folder paths are relative to."""
    cut = Shortener(working=str(working), known=_known_paths(document))
    return document.model_copy(
        update={
            "title": cut.text(document.title),
            "commands": tuple(map(cut.command, document.commands)),
            "runs": tuple(_run(run, cut) for run in document.runs),
            "comparisons": tuple(_pair(pair, cut) for pair in document.comparisons),
            "gallery": tuple(_sample(sample, cut) for sample in document.gallery),
        }
    )


def _pair(pair: PairPart, cut: Shortener) -> PairPart:
    """That two hosts differ stays; which they are goes."""
    settings, environment = (
        tuple(_field(d, cut) for d in fields) for fields in (pair.settings, pair.environment)
    )
    return pair.model_copy(
        update={
            "problem": pair.problem and cut.text(pair.problem),
            "settings": settings,
            "environment": environment,
            "not_comparable": tuple(map(cut.text, pair.not_comparable)),
        }
    )


def _field(difference: FieldDifference, cut: Shortener) -> FieldDifference:
    if difference.field == HOST:
        return FieldDifference(field="host", base="one machine", own="another")
    shown = {"base": cut.text(difference.base), "own": cut.text(difference.own)}
    return difference.model_copy(update=shown)


def _run(run: RunPart, cut: Shortener) -> RunPart:
    """Ids of samples and pieces of text are kept as data; so are the columns, which hold no texts but ids."""
    environment = {k: v for k, v in run.environment.items() if k != HOST}
    data = run.protocol.get("data")
    kept = {k: v for k, v in data.items() if k != "folder"} if isinstance(data, dict) else data
    protocol = {**run.protocol, **({"data": kept} if "data" in run.protocol else {})}
    analysis = run.analysis.model_copy(update={"notes": tuple(map(cut.text, run.analysis.notes))})
    gate = None if run.gate is None else GatePart.model_validate(cut.anything(run.gate.model_dump()))
    return run.model_copy(
        update={
            "argv": cut.words(run.argv),
            "identity": cut.anything(run.identity),
            "model": cut.anything(run.model),
            "environment": cut.anything(environment),
            "protocol": cut.anything(protocol),
            "analysis": analysis,
            "cautions": tuple(map(cut.text, run.cautions)),
            "gate": gate,
        }
    )


def _sample(sample: GallerySample, cut: Shortener) -> GallerySample:
    note = cut.text(sample.image_note) if sample.image_note else sample.image_note
    answers = tuple(_answer(answer, cut) for answer in sample.answers)
    return sample.model_copy(update={"image_note": note, "answers": answers})


def _answer(answer: Answer, cut: Shortener) -> Answer:
    error = cut.text(answer.error) if answer.error else answer.error
    reasons = {metric: cut.text(reason) for metric, reason in answer.reasons.items()}
    return answer.model_copy(update={"error": error, "reasons": reasons})


def _known_paths(document: ReportDocument) -> tuple[str, ...]:
    """Absolute paths the document states whole: of data, of variables, in commands."""
    found: set[str] = set()
    for run in document.runs:
        data = run.protocol.get("data")
        variables = run.environment.get("variables")
        values: list[Any] = [*run.argv, *run.protocol.values(), *run.model.values()]
        values += data.values() if isinstance(data, dict) else []
        values += variables.values() if isinstance(variables, dict) else []
        found |= _absolute(values)
    for command in document.commands:
        try:
            found |= _absolute(shlex.split(command))
        except ValueError:
            continue
    return tuple(sorted(found, key=lambda path: (-len(path), path)))


def _absolute(values: Sequence[Any]) -> set[str]:
    texts = [value.rpartition("=")[2] for value in values if isinstance(value, str)]
    return {text for text in texts if text.startswith("/") and text.count("/") > 1}


def _is_path(text: str) -> bool:
    return text.startswith(("/", "~", "../"))


DOCUMENT, PAGE, LIST, PICTURE = "comparison.json", "report.html", "README.md", "first-screen.png"
SCREEN = (1280, 800)
COLOURS = 128
PATIENCE_S = 120
PAGE_DIGEST = "page-sha256"
"""Text of the picture that says which page it is of."""
_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def published_folder(document: ReportDocument, slug: str) -> str:
    """`YYYY-MM-slug`, by the month of the first run."""
    if not _SLUG.fullmatch(slug):
        raise UsageError(f"--publish: {slug!r}", hint="Small letters, digits and hyphens: crops-mini.")
    return f"{document.runs[0].created_utc[:7]}-{slug}"


def publish_report(
    document: ReportDocument, *, root: Path, folder: str, working: Path, browser: str | None = None
) -> list[Path]:
    """Write document and page, the page's picture if there is a `browser`, then the list of all below `root`.

    Paths stay as far as they lie below `working`; the machine is not named.
    """
    target = root / folder
    make_folder(target, option="--to")
    write_atomic(target / DOCUMENT, record_bytes(public(document, working=working)) + b"\n")
    write_atomic(target / PAGE, render_report(read_document(target / DOCUMENT)).encode("utf-8"))
    if browser is not None:
        write_atomic(target / PICTURE, first_screen(target / PAGE, browser))
    write_atomic(root / LIST, list_text(root).encode("utf-8"))
    pictures = [] if browser is None else [target / PICTURE]
    return [target / DOCUMENT, target / PAGE, *pictures, root / LIST]


def first_screen(page: Path, browser: str) -> bytes:
    """PNG of the first `SCREEN` of a page, as a Chromium shows it, with the page's digest as a text.

    `EngineError` where the browser takes none.
    """
    with TemporaryDirectory(prefix="gravbench-picture-") as folder:
        taken = Path(folder) / "taken.png"
        asked = (
            f"--screenshot={taken}",
            f"--window-size={SCREEN[0]},{SCREEN[1] + 200}",  # its own bars take room from the page
            "--hide-scrollbars",
            "--virtual-time-budget=5000",
        )
        command = chromium_command(browser, page.resolve(), *asked, profile=Path(folder) / "profile")
        try:
            subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=True)
            image = Image.open(taken).convert("RGB").crop((0, 0, *SCREEN))
        except (OSError, subprocess.SubprocessError) as fault:
            raise EngineError(f"{browser} took no picture of {page}: {fault}") from fault
    told = PngInfo()
    told.add_text(PAGE_DIGEST, page_digest(page))
    buffer = io.BytesIO()
    image.quantize(COLOURS, dither=Image.Dither.NONE).save(buffer, "PNG", optimize=True, pnginfo=told)
    return buffer.getvalue()


def page_digest(page: Path) -> str:
    """SHA-256 of the page's bytes."""
    return hashlib.sha256(page.read_bytes()).hexdigest()


def read_document(path: Path) -> ReportDocument:
    """A stored document; `DataError` when it is missing or not of the schema."""
    try:
        data = path.read_bytes()
    except OSError as fault:
        raise DataError(f"{path}: {fault.strerror}", hint="Publish it again.") from fault
    return parse_record(data, ReportDocument, where=str(path))


def list_text(root: Path) -> str:
    """`README.md`: one line a published comparison, newest first."""
    lines = ["# Published comparisons", "", "Written by `gravbench report --publish`, newest first.", ""]
    for file in sorted(root.glob(f"*/{DOCUMENT}"), reverse=True):
        document = read_document(file)
        lines.append(f"- [{file.parent.name}]({file.parent.name}/{PAGE}): {visible(headline(document))}")
    return "\n".join(lines) + "\n"
