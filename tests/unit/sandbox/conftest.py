"""Sandboxes with everything this machine grants, and with what remains where less is granted."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dartes.sandbox.process import Means
from dartes.sandbox.sandbox import Sandbox

MEANS = {
    "everything": Means(),
    "no view": Means(view=False),
    "no landlock": Means(landlock=False),
    "no namespaces": Means(namespaces=False),
    "seccomp alone": Means(namespaces=False, landlock=False),
}


@pytest.fixture(scope="module", params=list(MEANS))
def means(request: pytest.FixtureRequest) -> Means:
    return MEANS[request.param]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scratch")


@pytest.fixture(scope="module")
def sandbox(means: Means, folder: Path) -> Iterator[Sandbox]:
    with Sandbox(means=means, folder=str(folder)) as made:
        yield made
    assert list(folder.iterdir()) == []
