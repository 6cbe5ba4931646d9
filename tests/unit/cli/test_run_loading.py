"""What judges a run says what it could not find, and stops at what it cannot read."""

from pathlib import Path

import pytest
from verdict_support import make_run, with_identity

from gravbench.cli.bless_command import _existing
from gravbench.cli.report_command import write_report
from gravbench.errors import DataError


def test_a_report_without_its_suite_says_why_it_has_no_pictures(tmp_path: Path) -> None:
    """The suite of the run was never on disk."""
    make_run(tmp_path / "run")
    document, _ = write_report((tmp_path / "run",), out=None, resamples=100, seed=0)
    (caution,) = [c for c in document.runs[0].cautions if "no images and no ground truth" in c]
    assert "fake" in caution


@pytest.mark.parametrize(("backend", "said"), [("toy", 0), ("transformers", 1)])
def test_a_report_whose_tokenizer_is_gone_says_so(tmp_path: Path, backend: str, said: int) -> None:
    """A toy model has no words that could be missed."""
    make_run(tmp_path / "run")
    with_identity(tmp_path / "run", backend=backend)
    document, _ = write_report((tmp_path / "run",), out=None, resamples=100, seed=0)
    cautions = [c for c in document.runs[0].cautions if c.startswith("tokens are shown by number")]
    assert len(cautions) == said


def test_a_broken_reference_is_an_error_and_not_a_new_one(tmp_path: Path) -> None:
    assert _existing(tmp_path / "none") is None
    (tmp_path / "ar").mkdir()
    (tmp_path / "ar" / "run.json").write_text("{")
    with pytest.raises(DataError, match=r"that is to be replaced cannot be read: .*run\.json") as caught:
        _existing(tmp_path)
    assert "move" in (caught.value.hint or "")
