import re
from pathlib import Path

import pytest

from gravbench.cli.entry import run_command_line


def test_ar_against_ar_of_two_runs_is_a_row_and_is_not_called_unmeasured(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = ("run", "--suite", "smoke", "--backend", "toy", "--limit", "3", "--quiet")
    for name, arm in (("a", "ar"), ("b", "ar:batch=2")):
        assert run_command_line([*run, "--strategy", arm, "--out", str(tmp_path / name)]) == 0
    pair = ("--base-arm", "ar", "--own-arm", "ar:batch=2", "--resamples", "200")
    assert run_command_line(["compare", str(tmp_path / "a"), str(tmp_path / "b"), *pair]) == 0
    out = capfd.readouterr().out
    assert "ar:batch=2 against ar: same tokens on 3 of 3 samples" in out
    assert "not measured" not in out
    assert re.search(r"ar:batch=2 +- +- +3 +0 -> 0", out)
