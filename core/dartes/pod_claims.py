"""Where a volume claim's files are found: `pvc://claim/path` is a path below the folder of mounted claims.

The operator mounts each claim that a job names; outside a cluster there is none.
"""

import os
from pathlib import Path, PurePosixPath
from typing import Final

from dartes.errors import ConfigurationError

ROOT_VARIABLE: Final = "DARTES_CLAIMS"
"""Names another folder of mounted claims, for tests."""

ROOT: Final = Path("/mnt/dartes/pvc")


def claim_path(field: str, rest: str) -> Path:
    """The path of `claim/path`, what follows `pvc://`; whether anything is there is for the caller.

    `field` names the field of the job for messages ("model.source").

    Raises
    ------
    ConfigurationError
        The path leads out of the claim, or the claim is not mounted here.
    """
    place = PurePosixPath(rest)
    if ".." in place.parts or place.is_absolute():
        raise ConfigurationError(f"{field} = 'pvc://{rest}': must be pvc://CLAIM/PATH, without '..'")
    claim, *inner = place.parts
    mounted = Path(os.environ.get(ROOT_VARIABLE) or ROOT) / claim
    if not mounted.is_dir():
        raise ConfigurationError(
            f"{field} = 'pvc://{rest}': the claim {claim!r} is not mounted here ({mounted}); pvc:// is only "
            "for jobs in a cluster, elsewhere use a path"
        )
    return mounted.joinpath(*inner)
