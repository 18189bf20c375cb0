"""A task whose grader does what its answer says, written to a folder that grader processes import from."""

from pathlib import Path

import pytest

HOSTILE_TASK = '''
import os
import sys

from dartes.tasks.addition import AdditionTask
from dartes.tasks.base import UnreadableReferenceError


class HostileTask(AdditionTask):
    """Answers are commands to the grader; anything else is graded as an addition."""

    prepared = 0

    @classmethod
    def prepare(cls):
        cls.prepared += 1

    def grade(self, row, completion):
        if completion == "hang":
            while True:
                pass
        if completion == "hang with a child":
            os.fork()
            while True:
                pass
        if completion == "exit":
            sys.exit(0)
        if completion == "die":
            os._exit(3)
        if completion == "crash":
            os.kill(os.getpid(), 11)
        if completion == "raise":
            raise ValueError("boo" * 1000)
        if completion == "recurse":
            return self.grade(row, completion)
        if completion == "eat":
            return bytearray(1 << 40)
        if completion == "write":
            with open(row["marker"], "w") as file:
                file.write("x")
        if completion == "print":
            print("junk" * 100)
            sys.stdout.flush()
            os.write(1, b"junk")
            os.write(2, b"junk")
        if completion == "forge":
            for descriptor in range(3, 20):
                try:
                    os.write(descriptor, b"x" * 100)
                except OSError:
                    pass
        if completion == "die once":
            try:
                os.rmdir(row["marker"])
            except OSError:
                pass
            else:
                os._exit(1)
            completion = "3"
        if completion == "environment":
            raise ValueError(" ".join(sorted(os.environ)) + " " + str(len(os.listdir("/proc/self/fd"))))
        if completion == "unreadable":
            raise UnreadableReferenceError("column 'b' says nothing")
        if completion == "prepared":
            raise ValueError(str(HostileTask.prepared))
        if completion == "nan":
            return type("Grade", (), {"score": float("nan"), "auxiliary": 0.0})()
        return super().grade(row, completion)


class BrokenTask(AdditionTask):
    @classmethod
    def from_spec(cls, spec):
        raise RuntimeError("this task cannot be built")
'''


@pytest.fixture
def hostile_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Name of a module, importable by grader processes only, with `HostileTask` and `BrokenTask`."""
    (tmp_path / "hostile_task.py").write_text(HOSTILE_TASK)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "hostile_task"
