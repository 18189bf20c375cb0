"""What is known of a job's models before a worker loads one: folders, files, a chat template, addresses.

Reads a few small files of local folders; the hub and services are asked nothing.
"""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from dartes.checkpoint import open_checkpoint
from dartes.errors import ConfigurationError
from dartes.model_source import resolve_model
from dartes.rewards.models import resolve_reward_model
from dartes.rewards.service_http import check_url
from dartes.spec import ModelSpec, Scheme, parse_source
from dartes.tasks.base import Row, Task
from dartes.tasks.instruction import InstructionTask, ScoringPlace

OTHER_ENGINE: Final = "DARTES_ENGINE"
"""Names an engine of the user's own, which may have other ways with messages."""

_ELSEWHERE: Final = ("hf://", "pvc://")
_CLASSIFIER: Final = "ForSequenceClassification"


def checked_model(model: ModelSpec, base_dir: Path) -> Path | None:
    """Open a built-in model or a local folder; the folder, None for a model elsewhere.

    Raises ConfigurationError where the folder can't be used.
    """
    if parse_source(model.source).scheme not in {Scheme.BUILTIN, Scheme.FILE}:
        return None
    folder = resolve_model(model.source, model.revision, base_dir)
    open_checkpoint(folder)
    return folder


def lacks_chat_template(folder: Path) -> bool:
    """True where a model's tokenizer surely has none; what can't be read here is for the worker to judge."""
    own_files = (folder / "chat_template.jinja", folder / "tekken.json")
    if any(path.is_file() for path in own_files) or any(folder.glob("additional_chat_templates/*.jinja")):
        return False
    if os.environ.get(OTHER_ENGINE):
        return False
    try:
        config = json.loads((folder / "tokenizer_config.json").read_bytes())
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and config.get("chat_template") is None


def refuse_messages(folder: Path, task: Task, rows: Iterable[Row]) -> None:
    """Raise ConfigurationError where a prompt of a checked row is a chat, for a model without a template."""
    if any(not isinstance(task.prompt(row), str) for row in rows):
        raise ConfigurationError(
            f"{folder}: the tokenizer has no chat template, and the task's prompts are messages; use an "
            "instruct model, add chat_template.jinja to the folder, or give task.prompt without task.system, "
            "which makes raw prompts"
        )


def check_scoring_places(task: Task, base_dir: Path) -> None:
    """Look at what scores a task's answers: a model's folder, a service's address.

    Raises ConfigurationError for the first that can't be used.
    """
    if isinstance(task, InstructionTask):
        for place, _ in task.places:
            _check_place(place, base_dir)


def _check_place(place: ScoringPlace, base_dir: Path) -> None:
    if place.service is not None:
        check_url(place.field, place.service)
    if place.model is None or place.model.startswith(_ELSEWHERE):
        return
    folder = resolve_reward_model(place.field, place.model, base_dir)
    try:
        config = json.loads((folder / "config.json").read_bytes())
        named = [str(name) for name in config.get("architectures") or ()]
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise ConfigurationError(
            f"{place.field}: {folder}: no configuration that can be read ({error})"
        ) from error
    if not any(name.endswith(_CLASSIFIER) for name in named):
        raise ConfigurationError(
            f"{place.field}: {folder}: {', '.join(named) or 'this'} is no sequence classifier; a reward "
            f"model's config.json names an architecture ...{_CLASSIFIER}"
        )
