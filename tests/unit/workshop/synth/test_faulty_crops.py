"""Faults change the picture and nothing else; anchors follow the ink."""

from dataclasses import replace

import numpy as np
import pytest
from system_packages import needs_fonts

from gravbench.errors import UsageError
from gravbench.workshop.synth import KINDS, Crop
from gravbench.workshop.synth.crop import FAULTS, faults_of, paper_of, render_robust
from gravbench.workshop.synth.ink import ROBUST_HELDOUT_FACES, ROBUST_TRAIN_FACES, TRAIN_FACES
from gravbench.workshop.synth.language import split_of

pytestmark = needs_fonts
CASES = [(fault, kind) for kind in KINDS for fault in dict.fromkeys(faults_of(kind))]


def on_ink(crop: Crop) -> float:
    """Share of letters and digits whose anchor has ink, of either polarity, within a few pixels."""
    grey = np.asarray(crop.image).astype(float)
    ink = np.abs(grey - paper_of(crop.image)) > 0.35 * np.abs(grey - paper_of(crop.image)).max()
    hits = [
        ink[max(round(a[1]) - 5, 0) : round(a[1]) + 6, max(round(a[0]) - 3, 0) : round(a[0]) + 4].any()
        for char, a in zip(crop.text, crop.anchors, strict=True)
        if a is not None and char.isalnum()
    ]
    return float(np.mean(hits)) if hits else 1.0


@pytest.mark.parametrize(("fault", "kind"), CASES)
def test_equal_seeds_give_equal_crops_with_anchors_on_their_ink(fault: str, kind: str) -> None:
    shares = []
    for seed in range(4):
        crop, again = (render_robust(fault, kind, seed, "train") for _ in range(2))
        assert (crop.image.tobytes(), crop.text, crop.anchors) == (
            again.image.tobytes(),
            again.text,
            again.anchors,
        )
        assert (crop.image.mode, crop.image.width % 16, crop.image.height % 16) == ("L", 0, 0)
        assert split_of(crop.text) == "train"
        shares.append(on_ink(crop))
    assert np.mean(shares) > 0.95


def test_misplaced_anchors_would_be_noticed() -> None:
    turned = [render_robust("rotated", "line", seed, "train") for seed in range(6)]
    centres = [crop.image.height / 2 for crop in turned]
    still = [
        replace(crop, anchors=tuple(a and (a[0], 2 * y - a[1] + 14) for a in crop.anchors))
        for crop, y in zip(turned, centres, strict=True)
    ]
    assert np.mean([on_ink(crop) for crop in still]) < 0.5 < np.mean([on_ink(crop) for crop in turned])


def test_a_turned_crop_loses_no_ink() -> None:
    for seed in range(10):
        crop = render_robust("rotated", "table", seed, "heldout")
        for anchor in filter(None, crop.anchors):
            assert 0 <= anchor[0] < crop.image.width and 0 <= anchor[1] < crop.image.height


def test_inverse_is_light_on_dark() -> None:
    grey = np.asarray(render_robust("inverse", "line", 1, "train").image).astype(float)
    assert np.percentile(grey, 99) - np.median(grey) > 30


def test_wide_lines_are_wider_than_any_trained_line() -> None:
    for seed in range(5):
        crop = render_robust("wide", "line", seed, "heldout")
        assert 416 < crop.image.width <= 832 and len(crop.text) >= 36


def test_fonts_of_the_suite_are_never_trained_on() -> None:
    assert not set(ROBUST_HELDOUT_FACES) & {*ROBUST_TRAIN_FACES, *TRAIN_FACES}
    fonts = {render_robust("font", "short", seed, "heldout").font for seed in range(40)}
    assert fonts == {face.name for face in ROBUST_HELDOUT_FACES}


@pytest.mark.parametrize(("fault", "kind"), [("torn", "line"), ("font", "formula")])
def test_unknown_faults_are_refused(fault: str, kind: str) -> None:
    assert fault not in FAULTS or kind == "formula"
    with pytest.raises(UsageError, match="expected one of"):
        render_robust(fault, kind, 0, "train")
