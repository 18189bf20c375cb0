"""What every test process has in common: one thread per pool, as in a run."""

import os


def pytest_configure() -> None:
    """Runs before any test module, and so before `torch`, is imported."""
    # Two spinning OpenMP pools on the same cores slow each other up many times over.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
