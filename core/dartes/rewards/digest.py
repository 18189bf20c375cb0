"""One digest over the rewards that a job brings along, functions and models, so that all workers grade alike.

What a reward service answers is not covered: it is asked, not held.
"""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from dartes.rewards.models import resolve_reward_model
from dartes.rewards.python_function import reward_digest
from dartes.spec import JobSpec, TaskSpec
from dartes.tasks.instruction import InstructionTask
from dartes.tasks.registry import task_named

_DOMAIN = b"dartes-rewards-v1\n"
_MODEL_DOMAIN = b"dartes-reward-model-v1\n"
_PIECE_BYTES = 2**20
_MODEL_FILES = ("*.json", "*.safetensors", "*.jinja", "*.model", "*.txt")
"""What a reward model is loaded from: weights, configuration, tokenizer."""


def combined_reward_digest(tasks: Iterable[TaskSpec], base_dir: Path) -> str | None:
    """SHA-256, hex, over the digests of all reward functions and models in order; None where there are none.

    Raises
    ------
    ConfigurationError
        A function's source or a model is not there.
    TransientError
        The hub can't be reached.
    """
    folders: dict[Path, str] = {}
    digests: list[str] = []
    for task in tasks:
        function = reward_digest(task, base_dir)
        if function is not None:
            digests.append(function)
        for folder in _model_folders(task, base_dir):
            if folder not in folders:
                folders[folder] = model_digest(folder)
            digests.append(folders[folder])
    if not digests:
        return None
    return hashlib.sha256(_DOMAIN + "\n".join(digests).encode()).hexdigest()


def job_reward_digest(spec: JobSpec, base_dir: Path) -> str | None:
    """The digest over all rewards of a job, evaluation sets included; see `combined_reward_digest`."""
    tasks = [one.task for sets in spec.training_stages() for one in sets]
    return combined_reward_digest(
        [*tasks, *(spec.task_of(one) for one in spec.evaluation.all_sets)], base_dir
    )


def model_digest(folder: Path) -> str:
    """SHA-256, hex, over names and contents of a reward model's files."""
    total = hashlib.sha256(_MODEL_DOMAIN)
    for path in sorted({path for pattern in _MODEL_FILES for path in folder.glob(pattern)}):
        with path.open("rb") as file:
            content = hashlib.sha256()
            while piece := file.read(_PIECE_BYTES):
                content.update(piece)
        total.update(f"{path.name} {content.hexdigest()}\n".encode())
    return total.hexdigest()


def _model_folders(task: TaskSpec, base_dir: Path) -> Iterator[Path]:
    built = task_named(task.kind).from_spec(task)
    if isinstance(built, InstructionTask):
        for place, _ in built.places:
            if place.model is not None:
                yield resolve_reward_model(place.field, place.model, base_dir)
