"""The local backend on small random checkpoints in the real file format."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from gravbench.backends.glm.request import prompt_of, read_pixels
from gravbench.backends.glm.step_model import GlmState, GlmStepModel
from gravbench.backends.registry import open_backend
from gravbench.backends.transformers_local import TransformersLocal
from gravbench.decoding.decode_loop import decode_request
from gravbench.decoding.protocols import ModelInfo
from gravbench.decoding.rows import Reply
from gravbench.decoding.strategies import parse_strategy
from gravbench.decoding.tracing import TraceRecorder
from gravbench.decoding.window import Step
from gravbench.errors import EngineError, UsageError
from gravbench.records import DecodeConfig, Generation, Request

BLOCKS = (1, 4, 8, 16, 32)
Maker = Callable[..., Request]


def run(backend: TransformersLocal, request: Request, strategy: str, budget: int = 64) -> Generation:
    generation = backend.generate(request, DecodeConfig(strategy=strategy, max_new_tokens=budget))
    assert generation.error is None
    return generation


class ScriptedDrafts:
    """The real model, with draft rows replaced: right (the AR output) or wrong in chosen slots."""

    def __init__(self, model: GlmStepModel, script: tuple[int, ...], wrong_slots: set[int]) -> None:
        self._model = model
        self._script = script
        self._wrong_slots = wrong_slots
        self.info = model.info
        self.room = model.room
        self.keep = model.keep
        self.prefill = model.prefill
        self.release = model.release
        self.expect = model.expect
        self.abandon = model.abandon
        self.head = None

    def forward(self, states: Sequence[GlmState], steps: Sequence[Step]) -> Reply:
        reply = self._model.forward(states, steps)
        if steps[0].kind != "draft":
            return reply
        logits = reply.logits.clone()
        cached = states[0].cache.length - states[0].prefix_tokens
        for slot in range(1, len(steps[0].window.tokens)):
            position = cached + slot + 1
            token = self._script[position] if position < len(self._script) else 0
            wrong = slot in self._wrong_slots
            logits[slot] = 0.0
            logits[slot, (token + wrong) % self.info.vocab_size] = 1.0
        return dataclasses.replace(reply, logits=logits)


@contextmanager
def eos(backend: TransformersLocal, token: int) -> Iterator[None]:
    """Make `token` the only end token for a while."""
    step, info = backend.step_model, backend.step_model.info
    step.info = dataclasses.replace(info, eos_token_ids=(token,))
    try:
        yield
    finally:
        step.info = info


@pytest.mark.parametrize("variant", range(4))
def test_selfspec_gives_the_ids_of_ar_for_every_block(
    backend: TransformersLocal, make_request: Maker, variant: int
) -> None:
    request = make_request(variant=variant, task=("text", "table", "formula")[variant % 3])
    expected = run(backend, request, "ar")
    assert len(set(expected.token_ids)) > 8  # the random model says something
    for block in BLOCKS:
        for legacy in (0, 1):
            got = run(backend, request, f"selfspec:block={block},legacy={legacy}")
            assert (got.token_ids, got.text, got.stop_reason) == (
                expected.token_ids,
                expected.text,
                expected.stop_reason,
            )


@pytest.mark.parametrize("block", BLOCKS)
def test_adversarial_drafts_never_change_the_ids(
    backend: TransformersLocal, make_request: Maker, block: int
) -> None:
    request = make_request(variant=1)
    expected = run(backend, request, "ar", 48).token_ids
    every = set(range(1, block + 1))
    for wrong in [set(), every, *({slot} for slot in every)]:
        model = ScriptedDrafts(backend.step_model, expected, wrong)
        trace = TraceRecorder(lambda: 0)
        with torch.inference_mode():
            decoded = decode_request(
                model, request, strategy=parse_strategy(f"selfspec:block={block}"), budget=48, trace=trace
            )
        counters = trace.finish(tokens_out=len(decoded.tokens)).counters
        assert decoded.tokens == expected
        if wrong == every:
            assert counters.draft_accepted == 0
        if not wrong:
            assert counters.draft_accepted >= counters.draft_offered - block


def test_every_eos_offset(backend: TransformersLocal, make_request: Maker) -> None:
    request = make_request(variant=2)
    full = run(backend, request, "ar", 40).token_ids
    offsets = [i for i, token in enumerate(full) if full.index(token) == i]
    assert {0, 1, 2, 3} <= set(offsets)
    for offset in offsets:
        with eos(backend, full[offset]):
            for wrong in (set(), {2}):
                model = ScriptedDrafts(backend.step_model, full, wrong)
                with torch.inference_mode():
                    decoded = decode_request(
                        model,
                        request,
                        strategy=parse_strategy("selfspec:block=4"),
                        budget=40,
                        trace=TraceRecorder(lambda: 0),
                    )
                assert decoded.tokens == full[: offset + 1] and decoded.stop_reason == "eos"


@pytest.mark.parametrize("block", [1, 4, 8])
def test_every_budget_remainder(backend: TransformersLocal, make_request: Maker, block: int) -> None:
    request = make_request(variant=3)
    full = run(backend, request, "ar", 40).token_ids
    for budget in range(1, block + 5):
        got = run(backend, request, f"selfspec:block={block}", budget)
        assert got.token_ids == full[:budget]
        assert got.trace is not None and got.trace.counters.tokens_out == budget


@pytest.mark.parametrize("variant", range(3))
def test_ar_gives_the_ids_of_transformers_generate(
    checkpoint: Path, backend: TransformersLocal, make_request: Maker, variant: int
) -> None:
    from transformers import GlmOcrForConditionalGeneration

    request = make_request(variant=variant)
    model = GlmOcrForConditionalGeneration.from_pretrained(str(checkpoint), dtype=torch.float32).eval()
    step = backend.step_model
    pixels = read_pixels(request, step._loaded.image_processor)
    ids = torch.tensor([step._prompter.prefix(prompt_of(request), image_tokens=pixels.image_tokens)])
    generated = model.generate(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        pixel_values=pixels.patches,
        image_grid_thw=pixels.grid,
        mm_token_type_ids=(ids == model.config.image_token_id).int(),
        do_sample=False,
        max_new_tokens=64,
    )
    assert run(backend, request, "ar").token_ids == tuple(generated[0, ids.shape[1] :].tolist())


def test_a_wrong_mask_id_gives_the_same_ids(
    broken: Path, backend: TransformersLocal, make_request: Maker
) -> None:
    path = broken / "block_diffusion.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"mask_id": 17}))
    other = TransformersLocal(broken)
    assert other.describe().mask_token_id == 17
    assert other.describe().model_digest != backend.describe().model_digest
    request = make_request(variant=1)
    assert run(other, request, "selfspec").token_ids == run(backend, request, "ar").token_ids


def test_counts_and_times_of_a_request(backend: TransformersLocal, make_request: Maker) -> None:
    generation = run(backend, make_request(variant=0), "selfspec:block=4", 20)
    assert generation.trace is not None
    c, times = generation.trace.counters, generation.trace.times
    assert (c.fwd_vision, c.fwd_prefill) == (1, 1)
    assert c.rows_prefill == c.prompt_tokens + c.vision_tokens
    assert c.decode_tokens + c.tokens_discarded_after_stop == c.draft_accepted + c.ar_tokens
    stages = (times.image_ns, times.vision_ns, times.prefill_ns, times.decode_ns)
    assert all(t is not None and t > 0 for t in stages)
    assert sum(t for t in stages if t is not None) <= (times.total_ns or 0)
    assert (times.draft_ns or 0) + (times.verify_ns or 0) <= (times.decode_ns or 0)


def test_requests_do_not_remember_each_other(backend: TransformersLocal, make_request: Maker) -> None:
    first = run(backend, make_request(variant=0), "ar")
    run(backend, make_request(variant=4), "selfspec", 200)
    assert run(backend, make_request(variant=0), "ar").token_ids == first.token_ids


def test_the_text_has_no_special_tokens_and_no_thinking(
    backend: TransformersLocal, make_request: Maker
) -> None:
    text = run(backend, make_request(variant=0), "ar").text
    assert "<|" not in text


def test_the_description_names_model_and_engine(backend: TransformersLocal) -> None:
    info = backend.describe()
    assert (info.name, info.model, info.block_size, info.device) == ("transformers", "micro", 8, "cpu")
    assert len(info.model_digest) == 64 and info.mask_token_id is not None and len(info.eos_token_ids) == 2


# --- faults of one sample -------------------------------------------------------------------------


def fault(backend: TransformersLocal, path: Path) -> str:
    request = Request(request_id="r", sample_id="s", task="text", image_path=str(path), max_new_tokens=8)
    generation = backend.generate(request, DecodeConfig(strategy="ar", max_new_tokens=8))
    assert generation.stop_reason == "error" and generation.token_ids == () and generation.trace is None
    assert generation.error is not None and "\n" not in generation.error and str(path) in generation.error
    return generation.error


def test_an_image_that_does_not_decode_is_an_error_of_its_sample(
    backend: TransformersLocal, make_request: Maker, tmp_path: Path
) -> None:
    good = Path(make_request(variant=0).image_path).read_bytes()
    for name, content in {
        "empty.png": b"",
        "text.png": b"not an image",
        "cut.png": good[: len(good) // 2],
        "header.png": good[:20],
        "flipped.png": good[:40] + bytes(200) + good[240:],
    }.items():
        path = tmp_path / name
        path.write_bytes(content)
        assert "image" in fault(backend, path)


def test_a_missing_image_or_a_folder_is_an_error_of_its_sample(
    backend: TransformersLocal, tmp_path: Path
) -> None:
    assert "cannot open" in fault(backend, tmp_path / "none.png")
    fault(backend, tmp_path)


def test_an_image_of_extreme_shape_or_size_is_an_error_of_its_sample(
    backend: TransformersLocal, tmp_path: Path
) -> None:
    from PIL import Image

    Image.new("L", (5000, 16), 255).save(tmp_path / "thin.png")
    assert "aspect ratio" in fault(backend, tmp_path / "thin.png")
    Image.new("L", (1600, 1600), 255).save(tmp_path / "large.png")
    assert "4096 positions" in fault(backend, tmp_path / "large.png")


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "1", "I;16", "CMYK"])
def test_other_image_modes_are_read(backend: TransformersLocal, tmp_path: Path, mode: str) -> None:
    from PIL import Image

    path = tmp_path / ("image.tiff" if mode == "CMYK" else "image.png")
    Image.new(mode, (64, 32)).save(path)
    request = Request(request_id="r", sample_id="s", task="text", image_path=str(path), max_new_tokens=4)
    assert run(backend, request, "ar", 4).token_ids


# --- configuration and checkpoint faults ----------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
)
def test_a_missing_file_is_named(broken: Path, name: str) -> None:
    (broken / name).unlink()
    with pytest.raises(EngineError, match=f"{name}: missing"):
        TransformersLocal(broken)


def test_a_missing_image_configuration_is_named(broken: Path) -> None:
    for name in ("preprocessor_config.json", "processor_config.json"):
        (broken / name).unlink(missing_ok=True)
    with pytest.raises(EngineError, match=r"preprocessor_config\.json: missing"):
        TransformersLocal(broken)


def test_a_missing_folder_is_an_engine_error(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="no such checkpoint folder"):
        open_backend("transformers", model=tmp_path / "none")


@pytest.mark.parametrize("keep", [0, 4, 100, 5000, -1])
def test_a_truncated_weight_file_is_named(broken: Path, keep: int) -> None:
    path = broken / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(EngineError, match=r"model\.safetensors: truncated"):
        TransformersLocal(broken)


def test_weights_that_lack_a_tensor_are_refused(broken: Path) -> None:
    from safetensors.torch import load_file, save_file

    path = broken / "model.safetensors"
    tensors = load_file(path)
    name = next(n for n in sorted(tensors) if "down_proj" in n)
    del tensors[name]
    save_file(tensors, path, metadata={"format": "pt"})
    with pytest.raises(EngineError, match="lack 1 tensor "):
        TransformersLocal(broken)


def test_weights_of_another_shape_are_refused(broken: Path) -> None:
    config = json.loads((broken / "config.json").read_text())
    config["text_config"]["intermediate_size"] *= 2
    (broken / "config.json").write_text(json.dumps(config))
    with pytest.raises(EngineError, match=r"tensor \S+ has shape"):
        TransformersLocal(broken)


def test_a_checkpoint_of_another_family_is_refused(broken: Path) -> None:
    config = json.loads((broken / "config.json").read_text()) | {"model_type": "qwen2_vl"}
    (broken / "config.json").write_text(json.dumps(config))
    with pytest.raises(EngineError, match="model_type is 'qwen2_vl'"):
        TransformersLocal(broken)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "block_diffusion.json"])
def test_a_file_that_is_not_json_is_an_engine_error(broken: Path, name: str) -> None:
    (broken / name).write_text("{")
    with pytest.raises(EngineError):
        TransformersLocal(broken)


def test_without_block_diffusion_only_ar_runs(broken: Path, make_request: Maker) -> None:
    (broken / "block_diffusion.json").unlink()
    backend = TransformersLocal(broken)
    backend.check(["ar"])
    assert run(backend, make_request(variant=0), "ar", 5).token_ids
    with pytest.raises(UsageError, match=r"broken/block_diffusion\.json"):
        backend.check(["ar", "selfspec:block=4"])


def test_a_block_larger_than_the_cache_is_a_usage_error(backend: TransformersLocal) -> None:
    with pytest.raises(UsageError, match="exceeds the cache of 4096"):
        backend.check(["selfspec:block=5000"])


def test_an_unknown_strategy_is_a_usage_error(backend: TransformersLocal) -> None:
    with pytest.raises(UsageError, match="unknown strategy"):
        backend.check(["selfspeck"])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"mask_id": 10**6}, "outside the vocabulary"),
        ({"mask_id": -1}, "outside the vocabulary"),
        ({"mask_id": "5"}, "expected an integer"),
        ({"mask_id": True}, "expected an integer"),
        ({"mask_id": None}, "expected an integer"),
        ({"bd_size": 0}, "at least 1"),
        ({"bd_size": 8.0}, "expected an integer"),
        ({"ar_loss_weight": -1}, "at least 0"),
        ({"ar_loss_weight": "x"}, "expected a number"),
    ],
)
def test_bad_block_diffusion_fields_are_named(broken: Path, fields: dict[str, object], message: str) -> None:
    path = broken / "block_diffusion.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
    with pytest.raises(EngineError, match=message) as caught:
        TransformersLocal(broken)
    assert str(path) in caught.value.message and next(iter(fields)) in caught.value.message


def test_unknown_block_diffusion_fields_are_left_alone(broken: Path) -> None:
    path = broken / "block_diffusion.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"note": ["anything"], "ar_loss_weight": 0}))
    (warning,) = TransformersLocal(broken).describe().warnings
    assert "ar_loss_weight is 0" in warning


def test_bad_settings_are_usage_errors(checkpoint: Path) -> None:
    for setting in ({"device": "tpu9"}, {"device": "meta"}, {"dtype": "float8"}, {"threads": 0}):
        with pytest.raises(UsageError):
            TransformersLocal(checkpoint, **setting)  # type: ignore[arg-type]


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_a_device_that_is_not_there_is_an_engine_error(checkpoint: Path) -> None:
    with pytest.raises(EngineError, match="0 CUDA devices"):
        TransformersLocal(checkpoint, device="cuda")


def test_out_of_memory_is_an_engine_error(
    checkpoint: Path, make_request: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = TransformersLocal(checkpoint)

    def exhausted(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(backend.step_model, "prefill", exhausted)
    with pytest.raises(EngineError, match="out of memory on cpu while decoding sample 0"):
        run(backend, make_request(variant=0), "ar")


def test_a_programming_error_is_not_swallowed(
    checkpoint: Path, make_request: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = TransformersLocal(checkpoint)

    def broken_step(*_: object, **__: object) -> None:
        raise RuntimeError("shape mismatch")

    monkeypatch.setattr(backend.step_model, "prefill", broken_step)
    with pytest.raises(RuntimeError, match="shape mismatch"):
        run(backend, make_request(variant=0), "ar")


def test_half_precision_runs_and_keeps_its_own_promise(checkpoint: Path, make_request: Maker) -> None:
    backend = TransformersLocal(checkpoint, dtype="bfloat16")
    ar, spec = (run(backend, make_request(variant=0), s, 24) for s in ("ar", "selfspec:block=4"))
    assert ar.token_ids[0] == spec.token_ids[0]  # later tokens may differ at near-ties


def test_a_closed_backend_is_unusable(checkpoint: Path, make_request: Maker) -> None:
    backend = TransformersLocal(checkpoint)
    backend.close()
    with pytest.raises(AttributeError):
        run(backend, make_request(variant=0), "ar")


def test_info_is_what_the_files_say(backend: TransformersLocal) -> None:
    assert isinstance(backend.step_model.info, ModelInfo)
    assert backend.step_model.info.max_positions == 4096


def test_a_checkpoint_without_an_end_token_is_refused(broken: Path) -> None:
    for name in ("generation_config.json", "config.json"):
        document = json.loads((broken / name).read_text())
        for part in (document, document.get("text_config", {})):
            part["eos_token_id"] = None
        (broken / name).write_text(json.dumps(document))
    with pytest.raises(EngineError, match="eos_token_id is missing"):
        TransformersLocal(broken)


def test_loading_is_silent(checkpoint: Path, capfd: pytest.CaptureFixture[str]) -> None:
    TransformersLocal(checkpoint)
    assert capfd.readouterr() == ("", "")
