"""From an ink mask to a page-like crop: padding, slight rotation, blur, contrast, shading and noise."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageFilter

GRID = 16
"""Sides are multiples of this (8-pixel patches merged 2 by 2), so that no processor resamples a crop."""

Point = tuple[float, float]
Anchors = list[Point | None]


@dataclass(frozen=True, slots=True)
class Wear:
    """How a crop deviates from a clean print; zero means not at all. Grey levels are 0 to 255."""

    ink: int
    paper: int
    noise: float
    blur: float
    degrees: float
    shading: float


def pick_wear(rng: random.Random, *, max_degrees: float = 1.0) -> Wear:
    """40 % clean black on white; the rest moderately worn, with at least 90 grey levels of contrast."""
    if rng.random() < 0.4:
        return Wear(ink=rng.randint(0, 30), paper=255, noise=0.0, blur=0.0, degrees=0.0, shading=0.0)
    ink, paper = rng.randint(0, 90), rng.randint(205, 255)
    if rng.random() < 0.12:
        paper = rng.randint(170, 215)
        ink = max(0, paper - rng.randint(90, 130))
    return Wear(
        ink=ink,
        paper=paper,
        noise=rng.uniform(1.5, 7.0) if rng.random() < 0.5 else 0.0,
        blur=rng.uniform(0.3, 0.7) if rng.random() < 0.3 else 0.0,
        degrees=rng.uniform(-max_degrees, max_degrees) if rng.random() < 0.4 else 0.0,
        shading=rng.uniform(4.0, 14.0) if rng.random() < 0.2 else 0.0,
    )


def round_up(length: float) -> int:
    """Smallest multiple of `GRID` that is not below `length`."""
    return GRID * math.ceil(length / GRID)


def rotate_points(anchors: Anchors, degrees: float, size: tuple[int, int]) -> Anchors:
    """Where `Image.rotate(degrees)` moves points.

    x' = cx + dx cos a + dy sin a, y' = cy - dx sin a + dy cos a, (dx, dy) from the centre (cx, cy).
    """
    if degrees == 0.0:
        return anchors
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    cx, cy = size[0] / 2, size[1] / 2
    moved: Anchors = []
    for anchor in anchors:
        if anchor is None:
            moved.append(None)
        else:
            dx, dy = anchor[0] - cx, anchor[1] - cy
            moved.append((cx + dx * cos + dy * sin, cy - dx * sin + dy * cos))
    return moved


def develop(mask: Image.Image, wear: Wear, rng: random.Random) -> Image.Image:
    """Turn an ink mask (mode L, 255 = ink) into the final crop of the same size.

    grey = paper + (ink - paper) mask / 255 + shading + noise, rounded and clipped to 0..255.
    """
    if wear.degrees:
        mask = mask.rotate(wear.degrees, resample=Image.Resampling.BICUBIC)
    if wear.blur:
        mask = mask.filter(ImageFilter.GaussianBlur(wear.blur))
    if not wear.noise and not wear.shading:
        scale = (wear.ink - wear.paper) / 255
        return mask.point([round(wear.paper + scale * level) for level in range(256)])
    grey = np.asarray(mask, dtype=np.float32) * np.float32((wear.ink - wear.paper) / 255) + np.float32(
        wear.paper
    )
    if wear.shading:
        slope = np.linspace(-wear.shading, 0.0, mask.width, dtype=np.float32)
        grey += slope if rng.random() < 0.5 else slope[::-1]
    if wear.noise:
        generator = np.random.Generator(np.random.PCG64(rng.getrandbits(63)))
        grey += np.float32(wear.noise) * generator.standard_normal(grey.shape, dtype=np.float32)
    return Image.fromarray(np.clip(np.rint(grey), 0, 255).astype(np.uint8))
