"""Where a user's reward function is: found as a file without running anything, named in errors, digested.

Knows the job's `task.python` and the folders of this machine; calls nothing.
"""

import hashlib
import importlib.machinery
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dartes.errors import ConfigurationError
from dartes.pod import in_pod
from dartes.tasks.base import RewardDescription, TaskDescription
from dartes.tasks.python import PythonFunctionTask

ROOT_VARIABLE: Final = "DARTES_REWARDS"
"""Names the folder that holds `<ConfigMap>/<key>`, where it is not the pod's own."""

POD_ROOT: Final = Path("/etc/dartes/reward")
"""Where a worker's pod has the ConfigMap of its job mounted."""


@dataclass(frozen=True, slots=True)
class FunctionPlace:
    """A reward function that can be loaded.

    Attributes
    ----------
    module
        Name to import; empty where `file` is loaded by itself.
    file
        The module's file; None for a module that is compiled into Python.
    function
        Name of the function in it.
    folder
        Put first on `sys.path`, and the working folder of its process.
    """

    module: str
    file: Path | None
    function: str
    folder: Path

    @property
    def name(self) -> str:
        """The function as errors call it."""
        where = self.module or (self.file.name if self.file else "")
        return f"{where}:{self.function}"


def find_function(source: RewardDescription | None, base_dir: Path) -> FunctionPlace:
    """Find the file of a reward function; nothing of it is run.

    Parameters
    ----------
    source
        The job's `task.python`.
    base_dir
        Folder of the job file.

    Raises
    ------
    ConfigurationError
        There is no such module or file; the message says where it was looked for.
    """
    if source is not None and source.config_map is not None:
        return _in_file(source.config_map.name, source.config_map.key, source.config_map.function, base_dir)
    if source is None or source.function is None:
        raise ConfigurationError("task.python: kind: python needs task.python.function or .configMap")
    module, _, function = source.function.partition(":")
    folder = base_dir.absolute()
    return FunctionPlace(module, _module_file(module, source.function, folder), function, folder)


def reward_digest(task: TaskDescription, base_dir: Path) -> str | None:
    """SHA-256 (hex) of the file of a job's own reward function; None for every other task.

    What that file imports is not covered. Raises ConfigurationError as `find_function` does.
    """
    if str(task.kind).lower() != PythonFunctionTask.name:
        return None
    return file_digest(find_function(task.python, base_dir))


def file_digest(place: FunctionPlace) -> str | None:
    """SHA-256 (hex) of a function's file as it is now; None where it is compiled into Python.

    Raises ConfigurationError where it can't be read.
    """
    if place.file is None:
        return None
    try:
        return hashlib.sha256(place.file.read_bytes()).hexdigest()
    except OSError as error:
        raise ConfigurationError(f"task.python: {place.file} can't be read ({error.strerror})") from error


def _in_file(name: str, key: str, function: str, base_dir: Path) -> FunctionPlace:
    root = os.environ.get(ROOT_VARIABLE) or (str(POD_ROOT) if in_pod() else None)
    folder = base_dir.absolute() if root is None else Path(root) / name
    file = folder / key
    if Path(key).name != key:
        raise ConfigurationError(f"task.python.configMap.key = {key!r}: must be a file name without a path")
    if not file.is_file():
        remedy = (
            f"put the file {key} there (in a cluster it is read from the ConfigMap {name})"
            if root is None
            else f"does the ConfigMap {name} have this key? See `kubectl describe configmap {name}`"
        )
        raise ConfigurationError(f"task.python.configMap: no file {file}; {remedy}")
    return FunctionPlace("", file, function, folder)


def _module_file(module: str, wanted: str, folder: Path) -> Path | None:
    """The file that `import module` would run, by the search of Python itself."""
    where = f"task.python.function = {wanted!r}"
    if module.split(".", maxsplit=1)[0] in sys.builtin_module_names:
        return None
    path: list[str] | None = [str(folder), *sys.path]
    spec: importlib.machinery.ModuleSpec | None = None
    so_far = ""
    for part in module.split("."):
        so_far = f"{so_far}.{part}" if so_far else part
        spec = None if path is None else importlib.machinery.PathFinder.find_spec(so_far, path)
        if spec is None:
            raise ConfigurationError(
                f"{where}: there is no module {so_far!r}, neither in the job file's folder {folder} nor "
                "among the installed packages; put the file there, or install the package (in a cluster: in "
                "the worker's image, or use task.python.configMap)"
            )
        locations = spec.submodule_search_locations
        path = None if locations is None else list(locations)
    if spec is None or spec.origin is None or not spec.has_location:
        raise ConfigurationError(
            f"{where}: {module!r} is a folder without __init__.py, which holds no functions; name a module "
            f"in it, such as {module}.reward:{wanted.rpartition(':')[2]}"
        )
    return Path(spec.origin)
