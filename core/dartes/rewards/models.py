"""Where a job's reward models are: folders on this machine, found or fetched. Loads nothing of them."""

from pathlib import Path

from dartes.errors import ConfigurationError, TransientError
from dartes.model_source import resolve_model


def resolve_reward_model(field: str, source: str, base_dir: Path) -> Path:
    """The folder of a reward model.

    Parameters
    ----------
    field
        The job's setting that names it, for errors.
    source
        A folder (relative to `base_dir`), `pvc://claim/path` or `hf://org/name[@revision]`.
    base_dir
        Folder of the job file.

    Raises
    ------
    ConfigurationError
        There is no such folder or model.
    TransientError
        The hub can't be reached.
    """
    place, revision = source, None
    if source.startswith("hf://") and "@" in source:
        place, _, revision = source.partition("@")
    try:
        return resolve_model(place, revision, base_dir)
    except (ConfigurationError, TransientError) as error:
        # It speaks of the model to be trained.
        said = str(error).replace("model.source", field).replace("model.revision", f"{field}, revision")
        raise type(error)(said) from error
