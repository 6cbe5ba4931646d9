"""Crops as packed tensors (patches, token rows, where each character's ink lies), and their stream.

The stream is endless, a function of (seed, rank, kind, index).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL.Image import Resampling
from torch import Tensor

from gravbench.workshop.synth import Crop, render_crop
from gravbench.workshop.synth.crop import faults_of, render_robust
from gravbench.workshop.training.checkpoints import EOS, MASK, Spelling, prompt_ids, spelling_of
from gravbench.workshop.training.glm import Span
from gravbench.workshop.training.layout import (
    CLEAN,
    NO_TARGET,
    NO_TEACHER,
    PREFIX,
    Row,
    lay_out,
    prefix_positions,
    visibility,
)
from gravbench.workshop.training.optimizer import EXAMPLES, KINDS

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
    """Packed tensors of several examples: rows (R), patches (N) and visual tokens (N/4) one after another.

    patches [N, p*p], patch_at [N, 2] (row, column), images: patches of each image;
    ids, kind, slot, label [R]; positions [3, R]; teacher [R]: of a draft row the AR row of the same slot, -1
    where there is none; rows: (first, number) of each sample's rows; spans: who attends to whom;
    pointed, cells: of each sample the rows whose next token has ink, and the visual token under that ink,
    counted from the sample's first image row, which is its first row + `image_at`;
    glyph_*: all inked tokens: four patch rows and bilinear weights [G, 4], visual token [G], half of
    it (0 left, 1 right) [G], token id [G].
    """

    patches: Tensor
    patch_at: Tensor
    images: tuple[int, ...]
    ids: Tensor
    kind: Tensor
    slot: Tensor
    label: Tensor
    positions: Tensor
    teacher: Tensor
    rows: tuple[tuple[int, int], ...]
    spans: tuple[Span, ...]
    pointed: tuple[Tensor, ...]
    cells: tuple[Tensor, ...]
    image_at: int
    glyph_patches: Tensor
    glyph_weights: Tensor
    glyph_cell: Tensor
    glyph_half: Tensor
    glyph_label: Tensor

    def to(self, device: torch.device) -> Batch:
        """The same batch on `device`."""
        if device.type == "cpu":
            return self
        values: dict[str, Any] = {name: getattr(self, name) for name in Batch.__slots__}
        moved: dict[str, Any] = {n: v.to(device) if isinstance(v, Tensor) else v for n, v in values.items()}
        for name in ("pointed", "cells", "spans"):
            moved[name] = tuple(part.to(device) for part in values[name])
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


def attention_spans(row: Row, first: int) -> tuple[Span, Span]:
    """Prefix and clean response attend causally to themselves, the noised views to what `visibility` says."""
    n = int((row.kind <= CLEAN).sum())
    kind, slot, block = (torch.from_numpy(c)[None] for c in (row.kind, row.slot, row.block))
    seen = visibility(kind, slot, block)[0, 0, n:]
    end = first + len(row.ids)
    views = torch.zeros(seen.shape).masked_fill_(~seen, float("-inf"))
    return Span(first, first + n, first, first + n, causal_bias(n)), Span(first + n, end, first, end, views)


@functools.lru_cache(maxsize=4096)
def causal_bias(n: int) -> Tensor:
    """[n, n]: 0 at and below the diagonal, -inf above."""
    return torch.full((n, n), float("-inf")).triu_(1)


def teachers(row: Row, first: int) -> Ints:
    """Of every draft row the row (counted from the batch's first) that holds AR's view of the same token."""
    s, m = int((row.kind == PREFIX).sum()), int((row.kind == CLEAN).sum())
    has = (row.kind > CLEAN) & (row.slot < m)
    return np.where(has, first + s + row.slot, NO_TEACHER)


def collate(
    examples: Sequence[Example],
    lexicon: Lexicon,
    *,
    blocks: Sequence[int],
    full_mask_share: float,
    rng: np.random.Generator,
) -> Batch:
    """Lay out and pack. Each example gets a block size drawn from `blocks`."""
    rows = [
        lay_out(
            e.prefix, e.response, block=int(rng.choice(blocks)), mask_id=lexicon.mask_id,
            eos_id=lexicon.eos_id, full_mask_share=full_mask_share, rng=rng,
        )
        for e in examples
    ]  # fmt: skip
    row_at = np.cumsum([0, *(len(r.ids) for r in rows)])
    patch_at = np.cumsum([0, *(len(e.patches) for e in examples)])
    positions, pointed, cells, glyphs = [], [], [], []
    spans: list[Span] = []
    for e, r, first, patch in zip(examples, rows, row_at[:-1], patch_at[:-1], strict=True):
        prefix = prefix_positions(e.prefix, image_id=lexicon.image_id, grid=e.grid)
        response = prefix.max() + 1 + r.slot[len(e.prefix) :]
        positions.append(np.concatenate([prefix, np.tile(response, (3, 1))], axis=1))
        cell = pointer_cells(r, e, patch=lexicon.patch)
        pointed.append(torch.from_numpy(first + np.flatnonzero(cell != NO_TARGET)))
        cells.append(torch.from_numpy(cell[cell != NO_TARGET]))
        spans += attention_spans(r, int(first))
        index, weight, under, half, label = glyph_table(e, patch=lexicon.patch)
        glyphs.append((patch + index, weight, patch // 4 + under, half, label))
    glyph = [torch.from_numpy(np.concatenate(parts)) for parts in zip(*glyphs, strict=True)]
    columns = {f: np.concatenate([getattr(r, f) for r in rows]) for f in ("ids", "kind", "slot", "label")}
    return Batch(
        patches=torch.from_numpy(np.concatenate([e.patches for e in examples])),
        patch_at=torch.from_numpy(np.concatenate([patch_coordinates(e.grid) for e in examples])),
        images=tuple(len(e.patches) for e in examples),
        **{name: torch.from_numpy(column) for name, column in columns.items()},
        positions=torch.from_numpy(np.concatenate(positions, axis=1)),
        teacher=torch.from_numpy(
            np.concatenate([teachers(r, int(f)) for r, f in zip(rows, row_at[:-1], strict=True)])
        ),
        rows=tuple((int(f), len(r.ids)) for f, r in zip(row_at[:-1], rows, strict=True)),
        spans=tuple(spans),
        pointed=tuple(pointed),
        cells=tuple(cells),
        image_at=lexicon.prefixes["text"][1],
        **dict(zip(GLYPH_COLUMNS, glyph, strict=True)),
    )


@dataclass(frozen=True, slots=True)
class CropStream:
    """Micro-batches by kind and index; packing lets a micro-batch mix crops of any size."""

    lexicon: Lexicon
    seed: int
    rank: int
    robust_share: float = 0.0
    """Share of crops drawn with one of the faults of `gravbench.workshop.synth.crop`."""

    def micro_batch(self, kind: str, index: int) -> list[Example]:
        """The `index`-th micro-batch of `kind` (0-based)."""
        rng = np.random.default_rng((self.seed, self.rank, KINDS.index(kind), index))
        seeds = rng.integers(0, 2**62, EXAMPLES[kind])
        faulty = rng.random(len(seeds)) < self.robust_share
        return [
            make_example(self._draw(kind, int(seed), rng if bad else None), self.lexicon)
            for seed, bad in zip(seeds, faulty, strict=True)
        ]

    def _draw(self, kind: str, seed: int, faults: np.random.Generator | None) -> Crop:
        if faults is None:
            return render_crop(kind, seed, "train")
        return render_robust(str(faults.choice(faults_of(kind))), kind, seed, "train")
