"""The made-up older release is the present sources but for what it says, and its changes fit the sources."""

from pathlib import Path

import pytest

from dartes import __version__
from dartes.v1 import control_pb2
from testcluster.build_context import Context
from testcluster.previous import RETIRED, UNTOLD, VERSION, changes, previous

ROOT = Path(__file__).resolve().parents[2]


def test_the_older_release_differs_in_what_it_says_and_in_nothing_else() -> None:
    present = Context.read(ROOT)
    older = previous(present)
    assert older.version == VERSION != __version__
    differing = {path for path, content in older.files.items() if content != present.files[path]}
    assert differing == {change.path for change in changes(__version__)}
    for path in differing:
        compile(older.files[path], path, "exec")


def test_its_coordinator_leaves_out_fields_that_there_are_and_fills_one_that_nobody_knows() -> None:
    assert set(UNTOLD) <= set(control_pb2.StatusResponse.DESCRIPTOR.fields_by_name)
    answer = control_pb2.StatusResponse.FromString(RETIRED)
    assert not answer.ListFields()
    assert answer.SerializeToString() == RETIRED


def test_a_source_that_has_moved_on_is_named() -> None:
    present = Context.read(ROOT)
    (path, *_) = (change.path for change in changes(__version__) if "status.py" in change.path)
    with pytest.raises(ValueError, match=f"{path} holds .* 0 times"):
        previous(Context({**present.files, path: b"nothing\n"}))
