"""Build `crops-mini` again from its generator: same ground truth, same pixels."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gravbench.imaging import bytes_digest
from gravbench.suites.samples import Annotation
from gravbench.workshop.synth import Crop, render_crop, render_letters
from gravbench.workshop.synth.fonts import is_unseen

FIRST_SEED = 1_000_000
"""Far from the low seeds that training uses for its own held-out curve."""


@dataclass(frozen=True, slots=True)
class Built:
    """What a build wrote: number of crops, bytes of PNG, and the digest for the manifest."""

    crops: int
    image_bytes: int
    annotation_sha256: str


def _held_out(kind: str) -> Callable[[int], Crop]:
    def draw(seed: int) -> Crop:
        return render_crop(kind, seed, "heldout")

    return draw


def _plan() -> tuple[tuple[str, int, Callable[[int], Crop]], ...]:
    return (
        ("text-short", 40, _held_out("short")),
        ("text-line", 50, _held_out("line")),
        ("text-paragraph", 20, _held_out("paragraph")),
        ("text-letters", 10, render_letters),
        ("table", 60, _held_out("table")),
        ("formula", 60, _held_out("formula")),
    )


def held_out_crops() -> Iterator[tuple[str, int, Crop]]:
    """(sample id, seed, crop) of the 240 crops; a seed whose text has been seen already is passed over."""
    seen: set[str] = set()
    for prefix, count, draw in _plan():
        seed, made = FIRST_SEED, 0
        while made < count:
            crop = draw(seed)
            if crop.text not in seen:
                seen.add(crop.text)
                yield f"{prefix}-{made:03}", seed, crop
                made += 1
            seed += 1


def build_crops_mini(out_dir: str | Path) -> Built:
    """Write `images/*.png` and `samples.jsonl` under `out_dir`, one line a crop, sorted by sample id.

    Fonts of Debian are needed (`DataError` names the missing package). References depend on the generator
    alone; pixels also on FreeType as built into Pillow and matplotlib.
    """
    folder = Path(out_dir)
    (folder / "images").mkdir(parents=True, exist_ok=True)
    lines: dict[str, str] = {}
    total = 0
    for sample_id, seed, crop in held_out_crops():
        png = io.BytesIO()
        crop.image.save(png, format="PNG", optimize=True)
        image = f"images/{sample_id}.png"
        (folder / image).write_bytes(png.getvalue())
        total += len(png.getvalue())
        lines[sample_id] = _annotation_line(sample_id, seed, crop, image, bytes_digest(png.getvalue()))
    text = "".join(lines[key] + "\n" for key in sorted(lines)).encode("utf-8")
    (folder / "samples.jsonl").write_bytes(text)
    return Built(crops=len(lines), image_bytes=total, annotation_sha256=bytes_digest(text))


def _annotation_line(sample_id: str, seed: int, crop: Crop, image: str, digest: str) -> str:
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
        },
    )
    return json.dumps(annotation.model_dump(), ensure_ascii=False, separators=(",", ":"))
