"""Build the shipped suites of crops and pages again: same ground truth, same pixels.

Fonts of Debian are needed (`DataError` names the missing package). References depend on the generator alone;
pixels also on FreeType as built into Pillow and matplotlib.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gravbench.imaging import bytes_digest
from gravbench.suites.manifest import load_samples, load_suite
from gravbench.suites.page_folder import entry_digest
from gravbench.suites.samples import Annotation
from gravbench.workshop.synth import Crop, render_crop, render_letters
from gravbench.workshop.synth.crop import FAULTS, render_robust, shuffled_pair
from gravbench.workshop.synth.ink import is_unseen
from gravbench.workshop.synth.page import Columns, SynthPage, render_page

FIRST_SEED = 1_000_000
"""Far from the low seeds that training uses for its own held-out curve."""
TUNE_SEED = 1_200_000


@dataclass(frozen=True, slots=True)
class Built:
    """What a build wrote: crops or pages, bytes of PNG, and the annotation file's digest for the manifest."""

    count: int
    image_bytes: int
    annotation_sha256: str


def _held_out(kind: str) -> Callable[[int], Crop]:
    def draw(seed: int) -> Crop:
        return render_crop(kind, seed, "heldout")

    return draw


Plan = tuple[tuple[str, int, Callable[[int], Crop]], ...]
"""Prefix of sample ids, how many crops, and what draws the crop of a seed."""


def _plan(twelfths: int) -> Plan:
    """The mixture of crops-mini, 12 times `twelfths` crops."""
    return (
        ("text-short", 2 * twelfths, _held_out("short")),
        ("text-line", 5 * twelfths // 2, _held_out("line")),
        ("text-paragraph", twelfths, _held_out("paragraph")),
        ("text-letters", twelfths // 2, render_letters),
        ("table", 3 * twelfths, _held_out("table")),
        ("formula", 3 * twelfths, _held_out("formula")),
    )


def held_out_crops(
    plan: Plan, *, first: int = FIRST_SEED, taken: Iterable[str] = ()
) -> Iterator[tuple[str, int, Crop]]:
    """(sample id, seed, crop) of a plan, seeds from `first`; a text that is taken already is passed over."""
    seen = set(taken)
    for prefix, count, draw in plan:
        seed, made = first, 0
        while made < count:
            crop = draw(seed)
            if crop.text not in seen:
                seen.add(crop.text)
                yield f"{prefix}-{made:03}", seed, crop
                made += 1
            seed += 1


def build_crops_mini(out_dir: str | Path) -> Built:
    """Write `images/*.png` and `samples.jsonl` under `out_dir`, one line a crop, sorted by sample id."""
    return _write_crops(Path(out_dir), held_out_crops(_plan(20)))


def build_crops_tune(out_dir: str | Path) -> Built:
    """As `build_crops_mini`: 48 crops of the same mixture, with no text of the suites that are reported."""
    taken = [
        sample.reference
        for name in ("crops-mini", "crops-robust", "semantic-shuffle")
        for sample in load_samples(load_suite(name))
    ]
    return _write_crops(Path(out_dir), held_out_crops(_plan(4), first=TUNE_SEED, taken=taken))


def robust_crops() -> Iterator[tuple[str, int, Crop]]:
    """(sample id, seed, crop) of the 120 crops, 20 of each fault; a text seen already is passed over."""
    seen: set[str] = set()
    for fault in FAULTS:
        for kind, count in _ROBUST_COUNTS.get(fault, _SPOILED_COUNTS).items():
            seed, made = FIRST_SEED, 0
            while made < count:
                crop = render_robust(fault, kind, seed, "heldout")
                if crop.text not in seen:
                    seen.add(crop.text)
                    yield f"{fault}-{kind}-{made:03}", seed, crop
                    made += 1
                seed += 1


_SPOILED_COUNTS = {"line": 8, "paragraph": 4, "table": 4, "formula": 4}
_ROBUST_COUNTS = {"font": {"line": 8, "paragraph": 4, "table": 8}, "wide": {"long": 20}}


def build_crops_robust(out_dir: str | Path) -> Built:
    """As `build_crops_mini`; the fault stands in the sample id and in the attributes."""
    return _write_crops(Path(out_dir), robust_crops(), by_fault=True)


def _write_crops(folder: Path, crops: Iterable[tuple[str, int, Crop]], *, by_fault: bool = False) -> Built:
    (folder / "images").mkdir(parents=True, exist_ok=True)
    lines: dict[str, str] = {}
    total = 0
    for sample_id, seed, crop in crops:
        png = _png(crop.image)
        image = f"images/{sample_id}.png"
        (folder / image).write_bytes(png)
        total += len(png)
        fault = {"fault": sample_id.split("-")[0]} if by_fault else {}
        lines[sample_id] = _annotation_line(sample_id, seed, crop, image, bytes_digest(png), **fault)
    text = "".join(lines[key] + "\n" for key in sorted(lines)).encode("utf-8")
    (folder / "samples.jsonl").write_bytes(text)
    return Built(count=len(lines), image_bytes=total, annotation_sha256=bytes_digest(text))


def _annotation_line(sample_id: str, seed: int, crop: Crop, image: str, digest: str, **more: str) -> str:
    annotation = Annotation(
        sample_id=sample_id,
        task=crop.task,
        image=image,
        image_sha256=digest,
        reference=crop.text,
        attributes={
            "kind": crop.kind,
            "font": crop.font,
            "unseen_font": is_unseen(crop.font),
            "random_letters": sample_id.startswith("text-letters-"),
            "seed": seed,
            **more,
        },
    )
    return json.dumps(annotation.model_dump(), ensure_ascii=False, separators=(",", ":"))


ONE_COLUMN, TWO_COLUMNS = 14, 12
SHUFFLED_PAGES, SHUFFLED_LINES = 6, 40


@dataclass(frozen=True, slots=True)
class PageJob:
    """A page to draw: image name, and what decides it."""

    name: str
    seed: int
    columns: Columns
    words: str = "plain"
    pair: str | None = None

    def render(self) -> SynthPage:
        """Draw it; pages of a pair carry its name and their word order as page attributes."""
        page = render_page(
            self.seed,
            columns=self.columns,
            split="heldout",
            name=self.name,
            shuffle=self.words == "shuffled",
        )
        if self.pair is not None:
            page.entry["page_info"]["page_attribute"] |= {"pair": self.pair, "words": self.words}
        return page


def mini_pages() -> tuple[PageJob, ...]:
    """The pages of pages-mini: first those of one column, then those of two."""
    total = ONE_COLUMN + TWO_COLUMNS
    return tuple(
        PageJob(f"page-{number:02}.png", FIRST_SEED + number, 1 if number < ONE_COLUMN else 2)
        for number in range(total)
    )


def shuffled_pages() -> tuple[PageJob, ...]:
    """The pages of semantic-shuffle: each as written, then with its words shuffled."""
    return tuple(
        PageJob(
            f"pair-{number:02}-{words}.png",
            FIRST_SEED + 500 + number,
            1 if number % 3 else 2,
            words,
            f"pair-{number:02}",
        )
        for number in range(SHUFFLED_PAGES)
        for words in ("plain", "shuffled")
    )


def shuffled_line(number: int) -> tuple[tuple[str, Crop], ...]:
    """(sample id, crop) of one line as written and shuffled."""
    pair = shuffled_pair(FIRST_SEED + 900 + number)
    return tuple((f"line-{number:02}-{words}", crop) for words, crop in pair)


def build_pages_mini(out_dir: str | Path) -> Built:
    """Write `OmniDocBench.json`, `images/*.png` and `digests.json` under `out_dir`."""
    return write_pages(mini_pages(), Path(out_dir))


def build_semantic_shuffle(out_dir: str | Path) -> tuple[Built, str]:
    """Write pages, and lines with their `samples.jsonl`; returns what was built and the lines' digest."""
    folder = Path(out_dir)
    built = write_pages(shuffled_pages(), folder)
    lines: list[str] = []
    for number in range(SHUFFLED_LINES):
        lines += [_line(folder, sample_id, crop) for sample_id, crop in shuffled_line(number)]
    data = "".join(sorted(lines)).encode("utf-8")
    (folder / "samples.jsonl").write_bytes(data)
    return built, bytes_digest(data)


def write_pages(jobs: Iterable[PageJob], folder: Path) -> Built:
    """Write pages in the OmniDocBench layout, with the digests that tell partial from changed."""
    (folder / "images").mkdir(parents=True, exist_ok=True)
    entries: list[dict[str, Any]] = []
    digests: dict[str, tuple[str, str]] = {}
    total = 0
    for job in jobs:
        name, page = job.name, job.render()
        png = _png(page.image)
        (folder / "images" / name).write_bytes(png)
        total += len(png)
        entries.append(page.entry)
        digests[name] = (entry_digest(page.entry), bytes_digest(png))
    data = json.dumps(entries, ensure_ascii=False, indent=1).encode("utf-8")
    (folder / "OmniDocBench.json").write_bytes(data)
    (folder / "digests.json").write_text(json.dumps(digests, indent=1) + "\n", encoding="utf-8")
    return Built(count=len(entries), image_bytes=total, annotation_sha256=bytes_digest(data))


def _png(image: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, format="PNG", optimize=True)
    return stream.getvalue()


def _line(folder: Path, sample_id: str, crop: Crop) -> str:
    pair, _, words = sample_id.rpartition("-")
    png = _png(crop.image)
    (folder / "images" / f"{sample_id}.png").write_bytes(png)
    annotation = Annotation(
        sample_id=sample_id,
        task="text",
        image=f"images/{sample_id}.png",
        image_sha256=bytes_digest(png),
        reference=crop.text,
        attributes={"pair": pair, "words": words, "font": crop.font},
    )
    return json.dumps(annotation.model_dump(), ensure_ascii=False, separators=(",", ":")) + "\n"
