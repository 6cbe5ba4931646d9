"""Settings of the whole test suite: no test may fail because the machine was busy."""

from hypothesis import settings

settings.register_profile("gravbench", deadline=None)
settings.load_profile("gravbench")
