"""Everything under reference_outputs/ is whole and scores today as it did when it was blessed."""

from pathlib import Path

import pytest

from gravbench.cli.entry import run_command_line
from gravbench.gate.reference import RUN_FILE, load_reference
from gravbench.resources import data_root

FOLDERS = sorted({path.parent.parent for path in data_root("reference_outputs").glob(f"*/*/{RUN_FILE}")})

pytestmark = pytest.mark.skipif(not FOLDERS, reason="no reference outputs are blessed yet")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_reference_is_whole_and_named_after_its_suite(folder: Path) -> None:
    reference = load_reference(folder)
    assert reference.suite == folder.name
    assert "ar" in reference.arms


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_stored_predictions_score_the_same(folder: Path) -> None:
    assert run_command_line(["gate", "--mode", "rescore", "--reference", str(folder)]) == 0
