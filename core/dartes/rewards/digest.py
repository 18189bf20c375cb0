"""One digest over the reward functions that a job brings along, so that all workers grade alike."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from dartes.rewards.python_function import reward_digest
from dartes.spec import TaskSpec

_DOMAIN = b"dartes-rewards-v1\n"


def combined_reward_digest(tasks: Iterable[TaskSpec], base_dir: Path) -> str | None:
    """SHA-256, hex, over the digests of all reward functions in order; None where there are none.

    Raises
    ------
    ConfigurationError
        A reward function's source is not there.
    """
    digests = [digest for task in tasks if (digest := reward_digest(task, base_dir)) is not None]
    if not digests:
        return None
    return hashlib.sha256(_DOMAIN + "\n".join(digests).encode()).hexdigest()
