"""PP-DocLayoutV3 in the real format, small and random; post-processing against obvious oracles."""

import json
from pathlib import Path

import pytest
import torch
from page_support import entry
from PIL import Image

from gravbench.errors import EngineError
from gravbench.pages.detector import (
    Detection,
    DetectorLayout,
    DetectorRules,
    detections,
    iou,
    keep_best,
    open_detector,
    pixels_of,
    reading_ranks,
)
from gravbench.pages.regions import ROUTES, PageSample

LABELS = (
    *("abstract", "algorithm", "aside_text", "chart", "content", "display_formula", "doc_title"),
    *("figure_title", "footer", "footer_image", "footnote", "formula_number", "header", "header_image"),
    *("image", "inline_formula", "number", "paragraph_title", "reference", "reference_content", "seal"),
    *("table", "text", "vertical_text", "vision_footnote"),
)
"""The published model's classes."""


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from transformers import PPDocLayoutV3Config, PPDocLayoutV3ForObjectDetection

    torch.manual_seed(3)
    config = PPDocLayoutV3Config(
        d_model=32,
        encoder_hidden_dim=32,
        encoder_ffn_dim=32,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        decoder_in_channels=[32, 32, 32],
        decoder_ffn_dim=32,
        decoder_layers=1,
        num_queries=30,
        num_denoising=0,
        x4_feat_dim=8,
        mask_feature_channels=[16, 16],
        global_pointer_head_size=8,
        encoder_in_channels=[32, 32, 32],
        backbone_config={
            "model_type": "hgnet_v2",
            "stem_channels": [3, 8, 8],
            "stage_in_channels": [8, 8, 32, 32],
            "stage_mid_channels": [8, 8, 8, 8],
            "stage_out_channels": [8, 32, 32, 32],
            "stage_num_blocks": [1, 1, 1, 1],
            "stage_downsample": [False, True, True, True],
            "stage_light_block": [False, False, True, True],
            "stage_kernel_size": [3, 3, 5, 5],
            "stage_numb_of_layers": [1, 1, 1, 1],
            "embedding_size": 8,
            "hidden_sizes": [8, 32, 32, 32],
            "depths": [1, 1, 1, 1],
            "return_idx": [0, 1, 2, 3],
            "out_features": ["stage1", "stage2", "stage3", "stage4"],
        },
        id2label=dict(enumerate(LABELS)),
        label2id={name: number for number, name in enumerate(LABELS)},
    )
    folder = tmp_path_factory.mktemp("layout")
    PPDocLayoutV3ForObjectDetection(config).save_pretrained(folder)
    size = {"size": {"height": 160, "width": 160}, "image_processor_type": "PPDocLayoutV3ImageProcessor"}
    (folder / "preprocessor_config.json").write_text(json.dumps(size))
    return folder


SAMPLE = PageSample(
    sample_id="p",
    image_name="p.png",
    image_path=None,
    image_sha256="0" * 64,
    entry=entry("p.png"),
    attributes={},
)


def test_every_class_of_the_published_model_has_a_route() -> None:
    assert set(LABELS) <= set(ROUTES)


def test_checkpoint_in_the_real_format_gives_regions_on_the_page(checkpoint: Path) -> None:
    layout = DetectorLayout(checkpoint, device="cpu", threads=1, rules=DetectorRules(threshold=0.0))
    image = Image.effect_noise((300, 200), 90)
    found = layout.regions(SAMPLE, image)
    assert found == layout.regions(SAMPLE, image)
    assert 0 < len(found) <= 30
    for region in found:
        assert region.label in LABELS
        left, top, right, bottom = region.box
        assert -150 < left < right < 450
        assert -100 < top < bottom < 300
    info = layout.describe()
    assert (info.name, info.model) == ("pp-doclayout-v3", checkpoint.name)
    stricter = DetectorLayout(checkpoint, device="cpu", threads=1)
    assert stricter.describe().digest != info.digest


def test_folder_without_the_model_is_one_clear_message(tmp_path: Path, checkpoint: Path) -> None:
    with pytest.raises(EngineError, match=r"has no config\.json, expected") as caught:
        open_detector(str(tmp_path), device="cpu", threads=1)
    assert "--layout-model" in (caught.value.hint or "")
    (tmp_path / "config.json").write_text('{"model_type": "glm_ocr"}')
    with pytest.raises(EngineError, match="model_type is 'glm_ocr', expected 'pp_doclayout_v3'"):
        open_detector(str(tmp_path), device="cpu", threads=1)
    (tmp_path / "config.json").write_text((checkpoint / "config.json").read_text())
    with pytest.raises(EngineError, match="does not load"):
        open_detector(str(tmp_path), device="cpu", threads=1)


def test_pixels_are_resized_without_antialiasing_to_whole_levels() -> None:
    image = Image.effect_noise((64, 48), 80)
    pixels = pixels_of(image, (24, 32))
    assert pixels.shape == (1, 3, 24, 32)
    assert float(pixels.min()) >= 0
    assert float(pixels.max()) <= 1
    levels = pixels * 255
    assert torch.allclose(levels, levels.round(), atol=1e-4)
    same = pixels_of(image, (48, 64))
    assert torch.equal((same[0, 0] * 255).round().int(), torch.tensor(list(image.tobytes())).view(48, 64))


def test_reading_ranks_follow_pairwise_votes() -> None:
    wanted = torch.tensor([3, 0, 2, 1])
    logits = torch.zeros(4, 4)
    for i in range(4):
        for j in range(4):
            logits[i, j] = 8.0 if wanted[i] < wanted[j] else -8.0
    assert torch.equal(reading_ranks(logits), wanted)


def test_detections_take_the_best_query_class_pairs() -> None:
    logits = torch.full((3, 2), -9.0)
    logits[0, 1], logits[2, 0] = 3.0, 1.0
    boxes = torch.tensor([[0.5, 0.5, 0.2, 0.4], [0.1, 0.1, 0.1, 0.1], [0.25, 0.25, 0.5, 0.5]])
    found = detections(
        logits, boxes, torch.zeros(3, 3), labels={0: "text", 1: "table"}, size=(100, 200), threshold=0.3
    )
    assert [d.label for d in found] == ["table", "text"]
    assert found[0].box == pytest.approx((40, 60, 60, 140))
    assert found[1].box == pytest.approx((0, 0, 50, 100))


def detection(box: tuple[float, float, float, float], label: str, score: float, rank: int = 0) -> Detection:
    return Detection(box=box, label=label, score=score, rank=rank)


def test_suppression_is_tighter_within_a_class_than_across() -> None:
    first = detection((0, 0, 100, 100), "text", 0.9)
    near = detection((10, 0, 110, 100), "text", 0.8)
    other = detection((10, 0, 110, 100), "title", 0.7, rank=1)
    assert 0.6 < iou(first.box, near.box) < 0.98
    assert keep_best([first, near, other], DetectorRules()) == [first, other]
    twin = detection((0, 0, 100, 100.5), "table", 0.5)
    assert keep_best([first, twin], DetectorRules()) == [first]


def test_box_inside_a_larger_one_is_dropped_unless_that_is_a_picture() -> None:
    outer = detection((0, 0, 100, 100), "table", 0.6, rank=1)
    inner = detection((10, 10, 40, 30), "text", 0.9)
    assert keep_best([outer, inner], DetectorRules()) == [outer]
    picture = detection((0, 0, 100, 100), "image", 0.6, rank=1)
    assert keep_best([picture, inner], DetectorRules()) == [inner, picture]


def test_order_is_the_models_and_empty_boxes_go() -> None:
    late = detection((0, 0, 10, 10), "text", 0.9, rank=2)
    early = detection((50, 50, 60, 60), "text", 0.4, rank=1)
    flat = detection((5, 5, 5, 9), "text", 0.99)
    assert keep_best([late, early, flat], DetectorRules()) == [early, late]
