"""Prediction folders: one UTF-8 Markdown file a page, found under the names the official scorer tries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gravbench.errors import DataError
from gravbench.omnidocbench.ground_truth import Page


@dataclass(frozen=True, slots=True)
class Prediction:
    """A page's Markdown; None without a file. `crash`: why the official scorer cannot read the file."""

    markdown: str | None
    crash: str | None = None


def names_tried(image: str) -> tuple[str, ...]:
    """File names for a page image, in order. The extension is taken to be three letters long (quirk)."""
    stem = image[:-4]
    short = stem.replace(".pdf", "")
    return tuple(dict.fromkeys((f"{stem}.md", f"{short}.mmd", f"{short}.md", f"{image}.md")))


def locate(folder: Path, pages: Sequence[Page]) -> list[Path | None]:
    """File of each page, None where there is none. A folder that answers no page at all is a data fault."""
    if not folder.is_dir():
        kind = "not a folder" if folder.exists() else "no such folder"
        raise DataError(
            f"{folder}: {kind}",
            hint="--predictions names a folder with one Markdown file for each page image.",
        )
    present = {path.name for path in folder.iterdir() if path.is_file()}
    if not present:
        raise DataError(
            f"{folder}: the folder holds no files",
            hint=f"For page image {pages[0].image} put {names_tried(pages[0].image)[0]} there.",
        )
    found = [next((name for name in names_tried(page.image) if name in present), None) for page in pages]
    if not any(found):
        tried = "; ".join(", ".join(names_tried(page.image)) for page in pages[:3])
        seen = ", ".join(sorted(present)[:3])
        raise DataError(
            f"{folder}: none of its {len(present)} files belongs to one of the {len(pages)} pages; looked "
            f"for {tried}{' ...' if len(pages) > 3 else ''}; found {seen}",
            hint="Name each file after its page image: page_1.png -> page_1.md.",
        )
    return [None if name is None else folder / name for name in found]


def read_prediction(path: Path | None) -> Prediction:
    """The file's text with line ends as newlines; what is not UTF-8 would crash the official scorer."""
    if path is None:
        return Prediction(None)
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        return Prediction(None, f"not UTF-8: {error.reason} at byte {error.start}")
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    return Prediction(text.replace("\r\n", "\n").replace("\r", "\n"))
