"""The table-driven backend through the backend protocol."""

from pathlib import Path

import pytest

from gravbench.backends.registry import open_backend
from gravbench.backends.toy import ToyBackend, ToyTable
from gravbench.errors import EngineError, UsageError
from gravbench.records import DecodeConfig, Request


def request(sample_id: str = "s1", budget: int = 200) -> Request:
    return Request(
        request_id=f"{sample_id}#0",
        sample_id=sample_id,
        task="text",
        image_path="x.png",
        max_new_tokens=budget,
    )


def decode(strategy: str, budget: int = 200) -> DecodeConfig:
    return DecodeConfig(strategy=strategy, max_new_tokens=budget)


def test_it_says_its_scripts_under_every_strategy() -> None:
    backend = ToyBackend(ToyTable(scripts={"s1": "Hello, wörld"}))
    for strategy in ("ar", "selfspec", "selfspec:block=3,legacy=1"):
        generation = backend.generate(request(), decode(strategy))
        assert generation.text == "Hello, w?rld"
        assert generation.stop_reason == "eos" and generation.token_ids[-1] == 0


def test_the_smaller_of_the_two_budgets_holds() -> None:
    backend = ToyBackend(ToyTable(scripts={"s1": "a" * 50}))
    assert len(backend.generate(request(budget=9), decode("ar")).token_ids) == 9
    assert len(backend.generate(request(), decode("selfspec", 7)).token_ids) == 7


def test_other_samples_get_a_text_of_their_own() -> None:
    backend = ToyBackend(ToyTable())
    first, again, other = (backend.generate(request(s), decode("ar")).text for s in ("a", "a", "b"))
    assert first == again != other


def test_a_table_is_read_from_json(tmp_path: Path) -> None:
    table = tmp_path / "toy.json"
    table.write_text('{"scripts": {"s1": "abc"}, "block_size": null}')
    backend = open_backend("toy", model=table)
    assert backend.generate(request(), decode("ar")).text == "abc"
    assert backend.describe().block_size is None
    with pytest.raises(UsageError, match=r"block_diffusion\.json"):
        backend.check(["ar", "selfspec"])


@pytest.mark.parametrize("content", ["{", '{"surprise": 1}', '{"block_size": 0}'])
def test_a_broken_table_is_an_engine_error(tmp_path: Path, content: str) -> None:
    table = tmp_path / "toy.json"
    table.write_text(content)
    with pytest.raises(EngineError, match=r"toy\.json"):
        open_backend("toy", model=table)


def test_a_missing_table_is_an_engine_error(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="cannot read"):
        open_backend("toy", model=tmp_path / "none.json")


def test_an_unknown_backend_suggests_the_nearest() -> None:
    with pytest.raises(UsageError, match="unknown backend 'transformer'") as caught:
        open_backend("transformer")
    assert "did you mean 'transformers'" in (caught.value.hint or "")


def test_the_description_changes_with_the_table() -> None:
    digests = {ToyBackend(ToyTable(wrong_slots=slots)).describe().model_digest for slots in ((), (1,))}
    assert len(digests) == 2


@pytest.mark.parametrize(("device", "dtype"), [("tpu", "float32"), ("cuda", "float32"), ("cpu", "int8")])
def test_a_device_or_dtype_it_has_not_is_refused(device: str, dtype: str) -> None:
    with pytest.raises(UsageError, match=device) as caught:
        open_backend("toy", device=device, dtype=dtype)
    assert "cpu" in (caught.value.hint or "")
