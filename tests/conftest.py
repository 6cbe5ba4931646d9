"""Settings of the whole test suite: no test may fail because the machine was busy, or a terminal narrow."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile("gravbench", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gravbench")

os.environ.pop("COLUMNS", None)  # tables have the width that the command line gives them by itself
