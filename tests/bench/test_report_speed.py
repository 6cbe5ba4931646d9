"""The report of a whole benchmark is built in a minute and usable in a second."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest
from browser_timing import interactive_ms
from report_support import build_large_report
from system_packages import needs_chromium


@pytest.mark.bench
@needs_chromium
def test_a_report_of_1651_pages_is_built_in_a_minute_and_usable_in_a_second(tmp_path: Path) -> None:
    """Processor time for the first; for the second the median of seven loads, as a reader waits."""
    page = tmp_path / "large.html"
    assert build_large_report(page).cpu_s < 60
    assert median(interactive_ms(page, tmp_path / "timed", loads=7)) < 1_000
