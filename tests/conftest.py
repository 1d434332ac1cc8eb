"""Test settings: examples without a clock, since these machines are shared and slow."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "tests", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("tests")
