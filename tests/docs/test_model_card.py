"""The model card's code reads a held-out crop with stock transformers, and says what the ar strategy says."""

import contextlib
import io
import json
import re
import shutil
from pathlib import Path

import pytest

from gravbench.backends.registry import open_backend
from gravbench.records import DecodeConfig, Request
from gravbench.resources import shipped_model_dir

ROOT = Path(__file__).resolve().parents[2]
CARD = shipped_model_dir() / "README.md"
CROPS = ROOT / "suites" / "data" / "crops-mini"


def test_the_snippet_prints_what_ar_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = json.loads((CROPS / "samples.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    image = CROPS / sample["image"]
    shutil.copy(image, tmp_path / "crop.png")
    (code,) = re.findall(r"```python\n(.*?)```", CARD.read_text(encoding="utf-8"), re.DOTALL)
    code = code.replace("gravbench/models/gravity-tiny", str(shipped_model_dir()))
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, str(CARD), "exec"), {})
    backend = open_backend("transformers")
    request = Request(
        request_id="r", sample_id="s", task="text", image_path=str(image), max_new_tokens=160
    )  # fmt: skip
    read = backend.generate(request, DecodeConfig(strategy="ar", max_new_tokens=160))
    backend.close()
    assert sample["task"] == "text"
    assert printed.getvalue().strip() == read.text.strip() != ""
