"""The Triton kernels equal the CPU kernels bit for bit, shown in Triton's interpreter.

Triton decides for the whole process, when a kernel is defined, whether it is interpreted. So `interpreted`
holds ordinary tests that a process of their own runs: `TRITON_INTERPRET=1 python -m pytest FILE` by hand.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

CHECKS = Path(__file__).with_name("interpreted")


@pytest.mark.slow
def test_every_check_passes_in_the_interpreter() -> None:
    files = sorted(str(file) for file in CHECKS.glob("checks_*.py"))
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", *files],
        env=os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    # Nothing but passes: none was skipped, and none was lost on the way.
    passed = re.search(r"^(\d+) passed in", result.stdout, re.MULTILINE)
    assert passed is not None, result.stdout
    assert int(passed[1]) >= 150, result.stdout
