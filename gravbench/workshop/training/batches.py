"""Crops as padded tensors (patches, token rows, where each character's ink lies), and their stream.

The stream is endless, a function of (seed, rank, kind, index). Padding a batch to its largest crop would
waste half of the compute: a group of crops is drawn at once, sorted by size and cut into micro-batches,
which are then handed out in random order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL.Image import Resampling
from torch import Tensor

from gravbench.workshop.synth import Crop, render_crop
from gravbench.workshop.training.layout import NO_TARGET, PAD, Row, lay_out, prefix_positions
from gravbench.workshop.training.optimizer import EXAMPLES, KINDS
from gravbench.workshop.training.vocabulary import EOS, MASK, Spelling, prompt_ids, spelling_of

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Lexicon:
    """What turning text into rows needs to know of a checkpoint."""

    speller: Spelling
    prefixes: dict[str, tuple[list[int], int]]
    """task -> (prefix ids with one image token, index of that image token)."""
    image_id: int
    mask_id: int
    eos_id: int
    patch: int
    mean: float
    std: float
    pixels: tuple[int, int]
    """Fewest and most pixels the processor allows, two frames counted."""

    @classmethod
    def of(cls, tokenizer: Any, processor: Any) -> Lexicon:
        """From a checkpoint's tokenizer and image processor."""
        image_id = tokenizer.convert_tokens_to_ids("<|image|>")
        prefixes = {}
        for task in ("text", "table", "formula"):
            ids = prompt_ids(tokenizer, task, image_tokens=1)
            prefixes[task] = (ids, ids.index(image_id))
        return cls(
            speller=spelling_of(tokenizer),
            prefixes=prefixes,
            image_id=image_id,
            mask_id=tokenizer.convert_tokens_to_ids(MASK),
            eos_id=tokenizer.convert_tokens_to_ids(EOS),
            patch=processor.patch_size,
            mean=processor.image_mean[0],
            std=processor.image_std[0],
            pixels=(processor.size["shortest_edge"], processor.size["longest_edge"]),
        )


@dataclass(frozen=True, slots=True)
class Example:
    """One crop, patchified and spelled. `ink`: per response token (x, y) in pixels, NaN where it has none."""

    kind: str
    patches: Floats
    grid: tuple[int, int]
    prefix: list[int]
    response: list[int]
    ink: Floats


def patchify(grey: npt.NDArray[np.uint8], *, patch: int, mean: float, std: float) -> Floats:
    """Grey image [H, W] -> [N, patch*patch] in 2 x 2 merge-block order, normalised like the processor."""
    h, w = grey.shape[0] // patch, grey.shape[1] // patch
    x = (grey.astype(np.float32) / 255.0 - mean) / std
    blocks = x.reshape(h // 2, 2, patch, w // 2, 2, patch).transpose(0, 3, 1, 4, 2, 5)
    return np.ascontiguousarray(blocks.reshape(h * w, patch * patch))


def fit(crop: Crop, lexicon: Lexicon) -> tuple[npt.NDArray[np.uint8], float, float]:
    """Grey pixels at the size the processor would give, and the scale of x and y."""
    from transformers.models.glm46v.image_processing_pil_glm46v import smart_resize

    width, height = crop.image.size
    factor = 2 * lexicon.patch
    least, most = lexicon.pixels
    h, w = smart_resize(2, height, width, factor=factor, min_pixels=least, max_pixels=most)
    image = crop.image.convert("L")
    if (w, h) != image.size:
        image = image.resize((w, h), Resampling.BICUBIC)
    return np.asarray(image), w / width, h / height


def make_example(crop: Crop, lexicon: Lexicon) -> Example:
    """Spell and patchify one crop."""
    grey, scale_x, scale_y = fit(crop, lexicon)
    ids, starts = lexicon.speller.encode(crop.text)
    ink = np.full((len(ids), 2), np.nan, dtype=np.float32)
    for i, start in enumerate(starts):  # a tag or command has no ink of its own, a letter is one character
        found = crop.anchors[start]
        if found is not None:
            ink[i] = found[0] * scale_x, found[1] * scale_y
    grid = (grey.shape[0] // lexicon.patch // 2, grey.shape[1] // lexicon.patch // 2)
    template, at = lexicon.prefixes[crop.task]
    prefix = [*template[:at], *[lexicon.image_id] * (grid[0] * grid[1]), *template[at + 1 :]]
    patches = patchify(grey, patch=lexicon.patch, mean=lexicon.mean, std=lexicon.std)
    return Example(crop.kind, patches, grid, prefix, ids, ink)


@dataclass(frozen=True, slots=True)
class Batch:
    """Padded tensors of several examples.

    patches [B, N, p*p], patch_at [B, N, 2] (row, column), patch_valid [B, N];
    ids, kind, slot, block, label [B, T]; positions [3, B, T]; cell [B, T] index of the visual token under the
    ink of the predicted token (NO_TARGET where there is none); image_at: index of the first image token;
    glyph_*: all inked tokens of the batch: row [M], four patch indices and bilinear weights [M, 4], merged
    cell [M], half of the cell (0 left, 1 right) [M], token id [M].
    """

    patches: Tensor
    patch_at: Tensor
    patch_valid: Tensor
    ids: Tensor
    kind: Tensor
    slot: Tensor
    block: Tensor
    label: Tensor
    positions: Tensor
    cell: Tensor
    image_at: int
    glyph_row: Tensor
    glyph_patches: Tensor
    glyph_weights: Tensor
    glyph_cell: Tensor
    glyph_half: Tensor
    glyph_label: Tensor

    def to(self, device: torch.device) -> Batch:
        """The same batch on `device`."""
        values: dict[str, Any] = {name: getattr(self, name) for name in Batch.__slots__}
        moved: dict[str, Any] = {n: v.to(device) if isinstance(v, Tensor) else v for n, v in values.items()}
        return Batch(**moved)


GLYPH_COLUMNS = tuple(name for name in Batch.__slots__ if name.startswith("glyph_"))


def patch_coordinates(grid: tuple[int, int]) -> Ints:
    """(row, column) of every patch [N, 2] of a merged grid, in merge-block order."""
    r, c, i, j = np.meshgrid(np.arange(grid[0]), np.arange(grid[1]), [0, 1], [0, 1], indexing="ij")
    return np.stack([(2 * r + i).ravel(), (2 * c + j).ravel()], axis=1).astype(np.int64)


def patch_index(row: Ints, column: Ints, columns: int) -> Ints:
    """Index in merge-block order of the patch at (row, column); `columns` is the merged width."""
    index: Ints = ((row // 2) * columns + column // 2) * 4 + (row % 2) * 2 + column % 2
    return index


def glyph_table(example: Example, *, patch: int) -> tuple[Ints, Floats, Ints, Ints, Ints]:
    """Per inked token: four patch indices, bilinear weights, merged cell, half of the cell, token id."""
    inked = ~np.isnan(example.ink[:, 0])
    xy = example.ink[inked]
    rows, columns = example.grid
    fx = np.clip(xy[:, 0] / patch - 0.5, 0, 2 * columns - 1.001)
    fy = np.clip(xy[:, 1] / patch - 0.5, 0, 2 * rows - 1.001)
    x0, y0 = fx.astype(np.int64), fy.astype(np.int64)
    ax, ay = fx - x0, fy - y0
    corners = [(y0, x0), (y0, x0 + 1), (y0 + 1, x0), (y0 + 1, x0 + 1)]
    index = np.stack([patch_index(r, c, columns) for r, c in corners], axis=1)
    weight = np.stack([(1 - ay) * (1 - ax), (1 - ay) * ax, ay * (1 - ax), ay * ax], axis=1)
    cell = merged_cell(xy, example.grid, patch=patch)
    half = (np.clip(xy[:, 0], 0, None) // patch).astype(np.int64) % 2
    return index, weight.astype(np.float32), cell, half, np.asarray(example.response)[inked]


def merged_cell(xy: Floats, grid: tuple[int, int], *, patch: int) -> Ints:
    """Index of the visual token under each point [M, 2]."""
    column = np.clip(xy[:, 0] // (2 * patch), 0, grid[1] - 1)
    row = np.clip(xy[:, 1] // (2 * patch), 0, grid[0] - 1)
    cell: Ints = (row * grid[1] + column).astype(np.int64)
    return cell


def pointer_cells(row: Row, example: Example, *, patch: int) -> Ints:
    """Per laid-out row the visual token to look at, or NO_TARGET."""
    cells = np.full(len(row.ids), NO_TARGET)
    wanted = (row.point >= 0) & (row.point < len(example.response))
    ink = example.ink[row.point[wanted]]
    has = ~np.isnan(ink[:, 0])
    found = np.full(len(ink), NO_TARGET)
    found[has] = merged_cell(ink[has], example.grid, patch=patch)
    cells[wanted] = found
    return cells


def collate(
    examples: Sequence[Example],
    lexicon: Lexicon,
    *,
    blocks: Sequence[int],
    full_mask_share: float,
    rng: np.random.Generator,
) -> Batch:
    """Lay out and pad. Each example gets a block size drawn from `blocks`."""
    rows = [
        lay_out(
            e.prefix, e.response, block=int(rng.choice(blocks)), mask_id=lexicon.mask_id,
            eos_id=lexicon.eos_id, full_mask_share=full_mask_share, rng=rng,
        )
        for e in examples
    ]  # fmt: skip
    size, length = len(rows), max(len(r.ids) for r in rows)
    n = max(len(e.patches) for e in examples)
    fills = {"ids": lexicon.eos_id, "kind": PAD, "slot": 0, "block": 0, "label": NO_TARGET}
    columns = {f: np.full((size, length), fill) for f, fill in fills.items()}
    cell = np.full((size, length), NO_TARGET)
    positions = np.zeros((3, size, length), dtype=np.int64)
    patches = np.zeros((size, n, lexicon.patch**2), dtype=np.float32)
    patch_at = np.zeros((size, n, 2), dtype=np.int64)
    valid = np.zeros((size, n), dtype=bool)
    glyphs: list[tuple[npt.NDArray[Any], ...]] = []
    for b, (e, r) in enumerate(zip(examples, rows, strict=True)):
        t, s = len(r.ids), len(e.prefix)
        for name, table in columns.items():
            table[b, :t] = getattr(r, name)
        cell[b, :t] = pointer_cells(r, e, patch=lexicon.patch)
        prefix = prefix_positions(e.prefix, image_id=lexicon.image_id, grid=e.grid)
        positions[:, b, :s] = prefix
        positions[:, b, s:t] = prefix.max() + 1 + r.slot[s:]
        patches[b, : len(e.patches)] = e.patches
        patch_at[b, : len(e.patches)] = patch_coordinates(e.grid)
        valid[b, : len(e.patches)] = True
        index, weight, cells, half, label = glyph_table(e, patch=lexicon.patch)
        glyphs.append((np.full(len(label), b), index, weight, cells, half, label))
    glyph = [torch.from_numpy(np.concatenate(parts)) for parts in zip(*glyphs, strict=True)]
    return Batch(
        patches=torch.from_numpy(patches),
        patch_at=torch.from_numpy(patch_at),
        patch_valid=torch.from_numpy(valid),
        **{name: torch.from_numpy(table) for name, table in columns.items()},
        positions=torch.from_numpy(positions),
        cell=torch.from_numpy(cell),
        image_at=lexicon.prefixes["text"][1],
        **dict(zip(GLYPH_COLUMNS, glyph, strict=True)),
    )


GROUP = 8
"""Micro-batches that share one draw."""


@dataclass(slots=True)
class CropStream:
    """Micro-batches by kind and index; the group last drawn of each kind is kept."""

    lexicon: Lexicon
    seed: int
    rank: int
    _groups: dict[str, tuple[int, list[list[Example]]]] = field(default_factory=dict)

    def micro_batch(self, kind: str, index: int) -> list[Example]:
        """The `index`-th micro-batch of `kind` (0-based); cheap when asked in order."""
        group, place = divmod(index, GROUP)
        kept = self._groups.get(kind)
        if kept is None or kept[0] != group:
            kept = self._groups[kind] = (group, self._draw(kind, group))
        return kept[1][place]

    def _draw(self, kind: str, group: int) -> list[list[Example]]:
        rng = np.random.default_rng((self.seed, self.rank, KINDS.index(kind), group))
        size = EXAMPLES[kind]
        seeds = rng.integers(0, 2**62, GROUP * size)
        examples = [make_example(render_crop(kind, int(s), "train"), self.lexicon) for s in seeds]
        examples.sort(key=lambda e: (len(e.patches), len(e.response)))
        batches = [examples[i * size : (i + 1) * size] for i in range(GROUP)]
        return [batches[i] for i in rng.permutation(GROUP)]
