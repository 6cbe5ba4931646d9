"""Everything under reference_outputs/ is whole and scores today as it did when it was blessed."""

from pathlib import Path

import pytest
from system_packages import needs_tex

from gravbench.cli.app import run_command_line
from gravbench.gate.reference import RUN_FILE, load_reference
from gravbench.resources import data_root

FOLDERS = sorted({path.parent.parent for path in data_root("reference_outputs").glob(f"*/*/{RUN_FILE}")})


def test_references_ship_for_every_suite_whose_data_ship() -> None:
    """A reference that vanishes is a fault; no test here is skipped for want of one."""
    assert {"smoke", "crops-mini", "pages-mini"} <= {folder.name for folder in FOLDERS}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_reference_is_whole_and_named_after_its_suite(folder: Path) -> None:
    reference = load_reference(folder)
    assert reference.suite == folder.name
    assert "ar" in reference.arms


@needs_tex  # without it CDM is missing on one side, and the gate says so with exit 3
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_stored_predictions_score_the_same(folder: Path) -> None:
    assert run_command_line(["gate", "--mode", "rescore", "--reference", str(folder)]) == 0
