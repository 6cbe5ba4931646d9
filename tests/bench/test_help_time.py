import subprocess
import sys
import time

import pytest
from run_support import child_environment


@pytest.mark.bench
def test_help_answers_within_half_a_second() -> None:
    times = []
    for _ in range(5):
        started = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "gravbench", "--help"],
            check=True,
            stdout=subprocess.DEVNULL,
            env=child_environment(),
        )
        times.append(time.perf_counter() - started)
    assert min(times) < 0.5
