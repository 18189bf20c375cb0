"""A small valid job, and ways to change one field of it."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from dartes.spec import InvalidJobError, JobSpec, LoadedJob, parse_job_text
from dartes.spec.yaml_text import write_yaml

Data = dict[str, Any]

_SMALL: Data = {
    "apiVersion": "dartes.dev/v1alpha1",
    "kind": "DartESJob",
    "metadata": {"name": "small"},
    "spec": {
        "model": {"source": "builtin://addition", "dtype": "Float32"},
        "dataset": {"source": "builtin://addition"},
        "task": {"kind": "addition"},
        "es": {"iterations": 20},
    },
}


def changed(changes: Data) -> Data:
    """Return the small job with fields set by dotted path."""
    data = deepcopy(_SMALL)
    for path, value in changes.items():
        place = data
        *parents, name = path.split(".")
        for parent in parents:
            place = place.setdefault(parent, {})
        place[name] = value
    return data


@pytest.fixture
def load() -> Callable[[Data], LoadedJob]:
    """Load the small job with the given fields (by dotted path) set."""
    return lambda changes: parse_job_text(write_yaml(changed(changes)), "job.yaml", Path("/jobs"))


@pytest.fixture
def problems(load: Callable[[Data], LoadedJob]) -> Callable[[Data], dict[str, str]]:
    """Return path -> message of everything wrong with the small job once the given fields are set."""

    def find(changes: Data) -> dict[str, str]:
        try:
            load(changes)
        except InvalidJobError as error:
            return {problem.path: problem.message for problem in error.problems}
        return {}

    return find


@pytest.fixture
def spec(load: Callable[[Data], LoadedJob]) -> Callable[[Data], JobSpec]:
    """Return the spec of the small job with the given fields set."""
    return lambda changes: load(changes).job.spec
