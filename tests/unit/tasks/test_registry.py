"""Tasks are found by name among the installed entry points."""

import pytest

from dartes.errors import ConfigurationError
from dartes.tasks.base import TaskSettings
from dartes.tasks.registry import load_task_class, task_address, task_named, task_names


def test_every_task_that_is_named_can_be_built_and_knows_its_name() -> None:
    assert {"addition", "arithmetic", "countdown", "gsm8k"} <= set(task_names())
    for name in ("addition", "arithmetic", "countdown", "gsm8k"):
        task = task_named(name)
        assert task.name == name
        assert task.from_spec(TaskSettings(name)).name == name


def test_an_unknown_task_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        ConfigurationError, match=r"task.kind: no task is named 'chess' \(there are: addition"
    ):
        task_named("chess")


def test_an_address_that_leads_nowhere_is_refused() -> None:
    assert load_task_class(task_address("gsm8k")).name == "gsm8k"
    for address in ("dartes.tasks.nowhere:Task", "dartes.tasks.gsm8k:Nothing"):
        with pytest.raises(ConfigurationError, match=f"cannot import the task at '{address}'"):
            load_task_class(address)
