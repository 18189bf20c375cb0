"""`python -m dartes_operator`: turn DartESJob objects into pods until told to stop."""

import asyncio
import logging
import os
import sys

from dartes.errors import DartesError, ExitCode
from dartes_operator import logs
from dartes_operator.app import run
from dartes_operator.settings import read_settings

log = logging.getLogger(__name__)


def main() -> int:
    """Run the operator; returns the exit code."""
    try:
        settings = read_settings(os.environ)
        logs.set_up(settings.log_level)
        asyncio.run(run(settings))
    except DartesError as error:
        log.error("%s", error)
        return error.exit_code
    return ExitCode.DONE


if __name__ == "__main__":
    sys.exit(main())
