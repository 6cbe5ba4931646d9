"""PP-DocLayoutV3 through transformers: boxes, labels and reading order from one forward.

The library's image processor needs torchvision and OpenCV; the same steps are done here with torch alone.
Boxes are used, not mask outlines.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from gravbench.backends.checkpoint_contents import refuse_unlike_tensors
from gravbench.backends.hub import quiet_transformers, resolve_model
from gravbench.errors import EngineError, shortened
from gravbench.pages.regions import PageSample, Region
from gravbench.store.schema import LayoutInfo

NAME = "pp-doclayout-v3"
DEFAULT_MODEL = "PaddlePaddle/PP-DocLayoutV3_safetensors"
MODEL_TYPE = "pp_doclayout_v3"
_FILES = ("config.json", "preprocessor_config.json", "model.safetensors")


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectorRules:
    """What becomes of the raw detections (GLM-OCR page pipeline)."""

    threshold: float = 0.3
    iou_same: float = 0.6
    iou_other: float = 0.98
    contained: float = 0.95
    """Share of a box's area inside a larger kept one at which it is dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """One box in image pixels, with its label, score and rank in reading order."""

    box: tuple[float, float, float, float]
    label: str
    score: float
    rank: int


class DetectorLayout:
    """One loaded detector. Inputs are resized to the size its preprocessor states, as in training."""

    def __init__(
        self, folder: Path, *, device: str, threads: int, rules: DetectorRules | None = None
    ) -> None:
        torch.set_num_threads(threads)
        self._folder = folder
        self._device = torch.device(device)
        self._rules = rules or DetectorRules()
        self._model = _load(folder).to(self._device).eval()
        self._labels = {int(key): str(name) for key, name in self._model.config.id2label.items()}
        self._size = _input_size(folder / "preprocessor_config.json")

    def describe(self) -> LayoutInfo:
        whole = hashlib.sha256(repr((self._rules, self._size)).encode())
        for name in _FILES:
            path = self._folder / name
            if path.is_file():
                with path.open("rb") as stream:
                    whole.update(hashlib.file_digest(stream, "sha256").digest())
        return LayoutInfo(name=NAME, model=self._folder.name, digest=whole.hexdigest())

    def regions(self, page: PageSample, image: Image.Image) -> tuple[Region, ...]:  # noqa: ARG002
        with torch.inference_mode():
            outputs = self._model(pixel_values=pixels_of(image, self._size).to(self._device))
        found = detections(
            outputs.logits[0].float().cpu(),
            outputs.pred_boxes[0].float().cpu(),
            outputs.order_logits[0].float().cpu(),
            labels=self._labels,
            size=image.size,
            threshold=self._rules.threshold,
        )
        return tuple(
            Region(region_id=f"{number:03}", label=d.label, polygon=_corners(d.box), score=d.score)
            for number, d in enumerate(keep_best(found, self._rules))
        )

    def close(self) -> None:
        """Let go of the model; the provider is unusable afterwards."""
        del self._model


def pixels_of(image: Image.Image, size: tuple[int, int]) -> torch.Tensor:
    """[1, 3, height, width] in 0..1: bicubic without antialiasing, rounded to 8 bits, no normalisation."""
    rgb = np.asarray(image.convert("RGB"))
    planes = torch.from_numpy(rgb.copy()).permute(2, 0, 1)[None].float()
    resized = torch.nn.functional.interpolate(planes, size=size, mode="bicubic", align_corners=False)
    return resized.round().clamp(0, 255) / 255


def reading_ranks(order_logits: torch.Tensor) -> torch.Tensor:
    """[Q] rank of every query, from pairwise logits [Q, Q]: entry (i, j), i < j, says that i comes before j.

    Votes for what stands before a query are summed and sorted; one rank for each query.
    """
    before = torch.sigmoid(order_logits)
    votes = before.triu(diagonal=1).sum(dim=0) + (1.0 - before.T).tril(diagonal=-1).sum(dim=0)
    ranks = torch.empty(len(votes), dtype=torch.long)
    ranks[votes.argsort(stable=True)] = torch.arange(len(votes))
    return ranks


def detections(
    logits: torch.Tensor,
    boxes: torch.Tensor,
    order_logits: torch.Tensor,
    *,
    labels: dict[int, str],
    size: tuple[int, int],
    threshold: float,
) -> list[Detection]:
    """Queries as detections by falling score: the Q best (query, class) pairs at or above the threshold.

    logits [Q, classes]; boxes [Q, 4] as centre and size in 0..1; order_logits [Q, Q].
    """
    queries, classes = logits.shape
    scores, flat = logits.sigmoid().flatten().topk(queries)
    ranks = reading_ranks(order_logits)
    width, height = size
    found = []
    for score, place in zip(scores.tolist(), flat.tolist(), strict=True):
        if score < threshold:
            break
        query, label = divmod(place, classes)
        cx, cy, w, h = boxes[query].tolist()
        box = ((cx - w / 2) * width, (cy - h / 2) * height, (cx + w / 2) * width, (cy + h / 2) * height)
        found.append(Detection(box=box, label=labels[label], score=score, rank=int(ranks[query])))
    return found


def keep_best(found: list[Detection], rules: DetectorRules) -> list[Detection]:
    """Non-maximum suppression by class, then boxes inside larger ones dropped; sorted by reading order."""
    kept: list[Detection] = []
    for candidate in sorted(found, key=lambda d: -d.score):
        if area(candidate.box) <= 0:
            continue
        if all(
            iou(candidate.box, other.box)
            < (rules.iou_same if candidate.label == other.label else rules.iou_other)
            for other in kept
        ):
            kept.append(candidate)
    outer = [d for d in kept if not any(_inside(d, other, rules.contained) for other in kept)]
    return sorted(outer, key=lambda d: (d.rank, -d.score))


def area(box: tuple[float, float, float, float]) -> float:
    """Area in square pixels; 0 for an empty box."""
    return max(box[2] - box[0], 0.0) * max(box[3] - box[1], 0.0)


def iou(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> float:
    """Intersection over union, 0 to 1."""
    shared = _shared(a, b)
    return shared / (area(a) + area(b) - shared)


def _shared(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> float:
    return area((max(a[0], b[0]), max(a[1], b[1]), min(a[2], b[2]), min(a[3], b[3])))


def _inside(one: Detection, other: Detection, share: float) -> bool:
    """Whether `one` lies in the larger `other`; pictures hold no other region."""
    if other is one or other.label in ("image", "chart") or area(other.box) <= area(one.box):
        return False
    return _shared(one.box, other.box) >= share * area(one.box)


def _corners(box: tuple[float, float, float, float]) -> tuple[tuple[float, float], ...]:
    left, top, right, bottom = box
    return (left, top), (right, top), (right, bottom), (left, bottom)


def _load(folder: Path) -> Any:
    from transformers import PPDocLayoutV3ForObjectDetection

    _check(folder)
    try:
        with quiet_transformers():
            model, info = PPDocLayoutV3ForObjectDetection.from_pretrained(
                str(folder),
                use_safetensors=True,
                trust_remote_code=False,
                local_files_only=True,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # refused below, by name
            )
    except Exception as error:  # the loader raises whatever a broken file leads it to
        line = shortened(str(error), 300)
        raise EngineError(
            f"{folder}: the layout model does not load ({type(error).__name__}: {line})"
        ) from error
    refuse_unlike_tensors(info, folder)
    return model


def _check(folder: Path) -> None:
    path = folder / "config.json"
    if not path.is_file():
        fault = "has no config.json" if folder.is_dir() else "no such folder"
        raise EngineError(
            f"{folder}: {fault}, expected a checkpoint of PP-DocLayoutV3",
            hint=f"Pass --layout-model DIR, or leave it out to fetch {DEFAULT_MODEL}.",
        )
    try:
        config = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise EngineError(
            f"{path}: not readable as JSON ({error})", hint="pass --layout-model DIR"
        ) from error
    found = config.get("model_type") if isinstance(config, dict) else None
    if found != MODEL_TYPE:
        raise EngineError(f"{path}: model_type is {found!r}, expected {MODEL_TYPE!r}")


def _input_size(path: Path) -> tuple[int, int]:
    """(height, width) of the detector's input; 800 by 800 when the preprocessor states none."""
    if not path.is_file():
        return 800, 800
    try:
        size = json.loads(path.read_bytes()).get("size", {})
        height, width = int(size.get("height", 800)), int(size.get("width", 800))
    except (ValueError, AttributeError, TypeError) as error:
        raise EngineError(f"{path}: size is not readable ({error})") from error
    if not 32 <= min(height, width) <= max(height, width) <= 4096:
        raise EngineError(f"{path}: size is {height} x {width}, expected 32 to 4096 pixels a side")
    return height, width


def open_detector(model: str | None, *, device: str, threads: int) -> DetectorLayout:
    """`model` is a checkpoint folder or hub id; by default the published one."""
    try:
        return DetectorLayout(resolve_model(model or DEFAULT_MODEL), device=device, threads=threads)
    except RuntimeError as error:
        raise EngineError(f"layout model on {device}: {shortened(str(error), 300)}") from error
