"""Finds a task by name among the installed packages' entry points (group `dartes.tasks`).

The only place that knows how a name becomes a class; the grader process gets the class's address from here.
"""

from importlib import import_module
from importlib.metadata import entry_points
from typing import cast

from dartes.errors import ConfigurationError
from dartes.tasks.base import Task

ENTRY_POINT_GROUP = "dartes.tasks"


def task_names() -> tuple[str, ...]:
    """The names of all installed tasks, sorted."""
    return tuple(sorted({point.name for point in entry_points(group=ENTRY_POINT_GROUP)}))


def task_address(kind: str) -> str:
    """Where a task's class lives, as `module:class`; raises `ConfigurationError` for an unknown name."""
    found = entry_points(group=ENTRY_POINT_GROUP, name=str(kind).lower())
    if not found:
        raise ConfigurationError(
            f"task.kind: no task is named '{kind}' (there are: {', '.join(task_names())})"
        )
    return found[min(found.names)].value


def load_task_class(address: str) -> type[Task]:
    """Import the class at `module:class`; raises `ConfigurationError` where there is none."""
    module, _, name = address.partition(":")
    try:
        return cast("type[Task]", getattr(import_module(module), name))
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"task.kind: cannot import the task at '{address}': {error}") from error


def task_named(kind: str) -> type[Task]:
    """The class of the task called `kind` (upper and lower case are the same)."""
    return load_task_class(task_address(kind))
