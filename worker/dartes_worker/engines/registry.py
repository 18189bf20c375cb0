"""Find an engine by the name in `workers.engine`, or by the test hook `DARTES_ENGINE`.

Engines are imported only when asked for, so that a process without torch can use one that needs none.
"""

import os
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Final, Protocol, cast

from dartes.checkpoint import Checkpoint
from dartes.errors import ConfigurationError
from dartes.noise import ServedDtype
from dartes.spec import JobSpec
from dartes.spec.roles import EngineKind
from dartes_worker.engines.base import Engine

ENGINE_VARIABLE: Final = "DARTES_ENGINE"
"""Environment variable that replaces `workers.engine` by `module:attribute` of a factory; for tests."""

_BUILT_IN: Final[Mapping[str, str]] = {
    "Transformers": "dartes_worker.engines.transformers:TransformersEngine.load",
    "VLLM": "dartes_worker.engines.vllm.engine:VllmEngine.load",
}


class EngineFactory(Protocol):
    """Loads a model for serving; the signature that every engine shares."""

    def __call__(
        self, folder: Path, checkpoint: Checkpoint, served: ServedDtype, threads: int, device: str
    ) -> Engine:
        """Load `folder`, opened as `checkpoint`, to serve it as `served` on `device` ("cpu", "cuda:0")."""


def engine_factory(name: str, environment: Mapping[str, str] | None = None) -> EngineFactory:
    """Return the factory of the engine `name`; ConfigurationError if there is no such engine.

    `environment` (by default the process's own) may hold the test hook `DARTES_ENGINE`.
    """
    override = (os.environ if environment is None else environment).get(ENGINE_VARIABLE, "")
    if override:
        return _imported(override)
    if name not in _BUILT_IN:
        raise ConfigurationError(f"workers.engine = {name!r}: must be one of {', '.join(sorted(_BUILT_IN))}")
    return _imported(_BUILT_IN[name])


def engine_for(spec: JobSpec) -> EngineFactory:
    """Return the factory of a job's engine, with the settings that only that engine has."""
    factory = engine_factory(str(spec.workers.engine))
    if spec.workers.engine is not EngineKind.VLLM or os.environ.get(ENGINE_VARIABLE):
        return factory
    from dartes_worker.engines.vllm.settings import VllmSettings

    return cast("EngineFactory", partial(factory, settings=VllmSettings.of(spec)))  # type: ignore[call-arg]


def _imported(target: str) -> EngineFactory:
    module_name, _, attribute = target.partition(":")
    if not module_name or not attribute:
        raise ConfigurationError(f"{ENGINE_VARIABLE} = {target!r}: must be module:attribute")
    try:
        return cast("EngineFactory", attrgetter(attribute)(import_module(module_name)))
    except ImportError as error:
        raise ConfigurationError(
            f"engine {target}: {error}; is the extra installed (pip install '.[worker]' in a clone)?"
        ) from error
    except AttributeError as error:
        raise ConfigurationError(f"engine {target}: {error}") from error
