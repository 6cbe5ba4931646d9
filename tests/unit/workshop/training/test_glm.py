"""The training forward is the stock model: same vision features, same AR logits, same draft logits."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from system_packages import needs_fonts

from gravbench.workshop.synth import render_crop
from gravbench.workshop.training.batches import Batch, Lexicon, collate, make_example
from gravbench.workshop.training.checkpoints import MICRO, Speller, write_initial_checkpoint
from gravbench.workshop.training.glm import text_forward, vision_forward
from gravbench.workshop.training.layout import CLEAN, NO_TARGET, PREFIX, VIEW_A, lay_out
from gravbench.workshop.training.losses import InkHeads, Weights, joint_loss


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    from transformers import AutoTokenizer, GlmOcrForConditionalGeneration
    from transformers.models.glm46v.image_processing_pil_glm46v import Glm46VImageProcessorPil

    folder: Path = tmp_path_factory.mktemp("micro")
    write_initial_checkpoint(folder, shape=MICRO, seed=3)
    model = GlmOcrForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.1 * torch.randn(p.shape, generator=torch.Generator().manual_seed(p.numel())))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    processor = Glm46VImageProcessorPil.from_pretrained(folder)
    lexicon = Lexicon.of(tokenizer, processor)
    crops = [render_crop("short", 1), render_crop("line", 2), render_crop("table", 3)]
    return SimpleNamespace(
        folder=folder, model=model, tokenizer=tokenizer, processor=processor, lexicon=lexicon, crops=crops,
        examples=[make_example(c, lexicon) for c in crops],
    )  # fmt: skip


def stock_inputs(p: SimpleNamespace, index: int) -> dict[str, torch.Tensor]:
    example = p.examples[index]
    pixels = p.processor(images=[p.crops[index].image.convert("RGB")], return_tensors="pt")
    ids = torch.tensor([example.prefix + example.response])
    return {
        "input_ids": ids,
        "pixel_values": pixels["pixel_values"],
        "image_grid_thw": pixels["image_grid_thw"],
        "mm_token_type_ids": (ids == p.lexicon.image_id).int(),
    }


def hidden_states(p: SimpleNamespace, batch: Batch) -> torch.Tensor:
    _, tokens = vision_forward(p.model.model.visual, batch.patches, batch.patch_at, batch.images)
    language = p.model.model.language_model
    image = (batch.ids == p.lexicon.image_id) & (batch.kind == PREFIX)
    embeds = language.embed_tokens(batch.ids).masked_scatter(image[:, None], tokens)
    return text_forward(language, embeds, batch.positions, batch.spans)[0]


@needs_fonts
@torch.no_grad()
def test_clean_stream_equals_a_plain_causal_forward(parts: SimpleNamespace) -> None:
    rng = np.random.default_rng(0)
    batch = collate(parts.examples, parts.lexicon, blocks=(4,), full_mask_share=0.5, rng=rng)
    logits = parts.model.lm_head(hidden_states(parts, batch))
    for b, (first, count) in enumerate(batch.rows):
        want = parts.model(**stock_inputs(parts, b)).logits[0]
        mine = slice(first, first + count)
        causal = batch.kind[mine] <= CLEAN
        torch.testing.assert_close(logits[mine][causal], want, atol=1e-4, rtol=1e-4)


@needs_fonts
@torch.no_grad()
def test_draft_rows_equal_the_window_a_decoder_will_run(parts: SimpleNamespace) -> None:
    """x_t block at slot s = forward of B masks after the committed text, bidirectional among themselves."""
    example, block = parts.examples[1], 4
    draws = [np.random.default_rng(1) for _ in range(2)]
    batch = collate([example], parts.lexicon, blocks=(block,), full_mask_share=1.0, rng=draws[0])
    hidden = hidden_states(parts, batch)
    draws[1].choice((block,))
    row = lay_out(example.prefix, example.response, block=block, mask_id=parts.lexicon.mask_id,
                  eos_id=parts.lexicon.eos_id, full_mask_share=1.0, rng=draws[1])  # fmt: skip
    start = int(np.unique(row.block[row.kind == VIEW_A])[2])
    mine = torch.from_numpy((row.kind == VIEW_A) & (row.block == start))

    ids = torch.tensor([example.prefix + example.response[:start] + [parts.lexicon.mask_id] * block])
    n = ids.shape[1]
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    mask[n - block :, n - block :] = True
    pixels = stock_inputs(parts, 1)
    types = (ids == parts.lexicon.image_id).int()
    positions, _ = parts.model.model.get_rope_index(ids, types, image_grid_thw=pixels["image_grid_thw"])
    want = parts.model.model(
        input_ids=ids, attention_mask=mask[None, None], position_ids=positions, mm_token_type_ids=types,
        pixel_values=pixels["pixel_values"], image_grid_thw=pixels["image_grid_thw"],
    ).last_hidden_state[0, n - block :]  # fmt: skip
    torch.testing.assert_close(hidden[mine], want, atol=1e-4, rtol=1e-4)


def test_complementary_views_make_every_token_a_target_exactly_once() -> None:
    for seed in range(50):
        row = lay_out([1, 2], list(range(10, 27)), block=4, mask_id=99, eos_id=0, full_mask_share=0.0,
                      rng=np.random.default_rng(seed))  # fmt: skip
        noisy = (row.kind >= VIEW_A) & (row.label != NO_TARGET)
        inner = noisy & (row.slot < row.slot[row.kind == VIEW_A].max())
        targets = sorted((row.slot + 1)[inner].tolist())
        assert targets == list(range(1, len(targets) + 1))


def test_only_the_first_eos_is_an_ar_target() -> None:
    row = lay_out([1, 2], [10, 11, 12], block=4, mask_id=99, eos_id=0, full_mask_share=0.0,
                  rng=np.random.default_rng(0))  # fmt: skip
    causal = row.label[(row.kind <= CLEAN) & (row.label != NO_TARGET)]
    assert causal.tolist() == [10, 11, 12, 0]


@needs_fonts
def test_speller_equals_the_tokenizer(parts: SimpleNamespace) -> None:
    speller = Speller.of(parts.tokenizer)
    for kind in ("short", "line", "paragraph", "table", "formula"):
        for seed in range(20):
            text = render_crop(kind, seed).text
            assert speller.encode(text)[0] == parts.tokenizer.encode(text, add_special_tokens=False)
            assert parts.tokenizer.decode(speller.encode(text)[0]) == text


@needs_fonts
def test_gradients_reach_every_parameter(parts: SimpleNamespace) -> None:
    c = parts.model.config
    heads = InkHeads(
        width=c.vision_config.hidden_size, dim=c.text_config.hidden_size, vocabulary=c.text_config.vocab_size
    )
    batch = collate(
        parts.examples, parts.lexicon, blocks=(4,), full_mask_share=0.5, rng=np.random.default_rng(0)
    )
    parts.model.zero_grad()
    joint_loss(parts.model, heads, batch, Weights()).total.backward()
    silent = [n for n, p in parts.model.named_parameters() if p.grad is None or not p.grad.abs().sum()]
    assert silent == []


@needs_fonts
def test_checkpoint_folder_names_its_mask(parts: SimpleNamespace) -> None:
    fields = json.loads((parts.folder / "block_diffusion.json").read_text())
    assert fields["mask_id"] == parts.tokenizer.convert_tokens_to_ids("<|mask|>")
