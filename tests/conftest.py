"""What every test process has in common: one thread per pool, as in a run, and repeatable random examples."""

import os

from hypothesis import HealthCheck, settings

# The same examples in every run, so that a failure is of the change and not of the day;
# HYPOTHESIS_EXPLORE=1 looks for new ones.
# How fast they are made says something of the machine, not of the code.
settings.register_profile(
    "repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore")


def pytest_configure() -> None:
    """Runs before any test module, and so before `torch`, is imported."""
    # Two spinning OpenMP pools on the same cores slow each other up many times over.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    settings.load_profile("explore" if os.environ.get("HYPOTHESIS_EXPLORE") else "repeatable")
