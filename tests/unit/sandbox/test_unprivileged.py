"""The sandbox works for a user without rights, and in a pod under PodSecurity `restricted`, as built here."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import dartes

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

START = Path(__file__).with_name("confined_start.py")
CORE = Path(dartes.__file__).parents[1]


def started(user: int, kind: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-I", str(START), str(CORE), str(user), kind],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


@pytest.mark.slow
@pytest.mark.parametrize(("user", "kind"), [(65534, "plain"), (65532, "restricted")])
def test_programs_are_confined_and_run_for_a_user_without_rights(user: int, kind: str) -> None:
    said = started(user, kind)
    assert said["levels"]["seccomp"]
    assert said["levels"]["user"] == user
    if kind == "restricted":
        assert said["levels"]["namespaces"] == "none"
    if not (said["levels"]["view"] or said["levels"]["landlock"]):
        pytest.skip("this kernel offers no Landlock: files cannot be opened at all")
    assert said["script"]["stdout"] == "'' ['mine']\n", said["script"]["stderr"]
    assert said["checked"]["passed"] == [True]
    assert said["loop"]["ending"] == "timed out"
    assert said["left"] == ["secret"]
