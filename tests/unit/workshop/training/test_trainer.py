"""A training run continues where it stopped, is a function of its seed, and takes foreign checkpoints in."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from system_packages import needs_fonts

from gravbench.cli.train_command import parse_duration
from gravbench.errors import EngineError, UsageError
from gravbench.workshop.training import checkpoints
from gravbench.workshop.training.checkpoints import MICRO, write_initial_checkpoint
from gravbench.workshop.training.optimizer import KINDS, Curriculum, orthogonalise
from gravbench.workshop.training.trainer import Trainer, TrainOptions, train

FULL_MIX = Curriculum(vision_only=0.0, alignment=0.0)


def options(out: Path) -> TrainOptions:
    return TrainOptions(out=out, shape=MICRO, budget_s=1e6, curriculum=FULL_MIX, compute_dtype="float32")


def trainer(out: Path) -> Trainer:
    if not (out / "checkpoint").exists():
        write_initial_checkpoint(out / "checkpoint", shape=MICRO, seed=0)
    return Trainer(options(out))


def weights(t: Trainer) -> torch.Tensor:
    return torch.cat([p.detach().reshape(-1) for p in t.model.parameters()])


@needs_fonts
def test_a_resumed_run_takes_the_step_the_uninterrupted_one_takes(tmp_path: Path) -> None:
    whole, cut = trainer(tmp_path / "a"), trainer(tmp_path / "b")
    for _ in range(2):
        whole.one_step()
        cut.one_step()
    cut.save()
    resumed = trainer(tmp_path / "b")
    assert resumed.progress.step == 2
    whole.one_step()
    resumed.one_step()
    assert torch.equal(weights(whole), weights(resumed))


@needs_fonts
def test_steps_lower_the_loss(tmp_path: Path) -> None:
    t = trainer(tmp_path)
    t.progress.trained_s = 0.1 * t.options.budget_s
    losses = [t.one_step()["ar"] for _ in range(8)]
    assert losses[-1] < 0.95 * losses[0]


@needs_fonts
def test_train_leaves_a_checkpoint_a_state_and_a_log(tmp_path: Path) -> None:
    checkpoint = train(replace(options(tmp_path), budget_s=0.5, curriculum=Curriculum(vision_only=1.0)))
    assert (checkpoint / "model.safetensors").is_file()
    assert (tmp_path / "state.pt").is_file()
    last = json.loads((tmp_path / "log.jsonl").read_text().splitlines()[-1])
    assert {f"{kind}/draft_acc" for kind in KINDS} <= last.keys()
    assert {"line/cer", "line/accepted_draft"} <= last.keys()


def test_training_leaves_the_terminal_to_its_own_log(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write_initial_checkpoint(tmp_path / "source", shape=MICRO, seed=0)
    checkpoints.adopt_checkpoint(tmp_path / "source", tmp_path / "run" / "checkpoint", block=8)
    Trainer(options(tmp_path / "run")).save()
    assert capfd.readouterr() == ("", "")


def test_weights_of_another_shape_are_not_trained_on(tmp_path: Path) -> None:
    write_initial_checkpoint(tmp_path, shape=MICRO, seed=0)
    config = json.loads((tmp_path / "config.json").read_text())
    config["text_config"]["intermediate_size"] *= 2
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(EngineError, match=r"tensor \S+ has shape .*and \d+ more"):
        checkpoints.load_for_training(tmp_path, torch.float32)


def test_a_truncated_state_is_one_clear_error(tmp_path: Path) -> None:
    t = trainer(tmp_path)
    t.save()
    state = tmp_path / "state.pt"
    state.write_bytes(state.read_bytes()[:1000])
    with pytest.raises(EngineError, match=r"state\.pt: not a training state"):
        trainer(tmp_path)


def test_a_checkpoint_without_mask_token_gets_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_initial_checkpoint(tmp_path / "source", shape=MICRO, seed=0)
    monkeypatch.setattr(checkpoints, "MASK", "<|other mask|>")
    checkpoints.adopt_checkpoint(tmp_path / "source", tmp_path / "target", block=32)
    fields = json.loads((tmp_path / "target" / "block_diffusion.json").read_text())
    model, tokenizer, _ = checkpoints.load_for_training(tmp_path / "target", torch.float32)
    assert fields["bd_size"] == 32
    assert fields["mask_id"] == tokenizer.convert_tokens_to_ids("<|other mask|>") == len(tokenizer) - 1
    assert len(model.get_input_embeddings().weight) > fields["mask_id"]


def test_a_folder_that_is_no_checkpoint_names_the_missing_file(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"config\.json is missing"):
        checkpoints.load_for_training(tmp_path, torch.float32)


def test_zero_processes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--processes is 0"):
        train(replace(options(tmp_path), processes=0))


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("1.5m", 90), ("2h", 7200)])
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "-3m", "3 days", "1e3"])
def test_bad_durations_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--budget"):
        parse_duration(text)


def test_newton_schulz_gives_nearly_orthogonal_rows() -> None:
    x = orthogonalise(torch.randn(2, 16, 48, generator=torch.Generator().manual_seed(0)))
    singular = torch.linalg.svdvals(x)
    assert singular.min() > 0.6 and singular.max() < 1.3


def test_learning_rate_warms_up_holds_and_decays_to_zero() -> None:
    c = Curriculum(decay=0.5)
    assert [round(c.rate(p), 3) for p in (0.0, 0.0025, 0.3, 0.5, 0.75, 1.0)] == [0, 0.5, 1, 1, 0.5, 0]
