"""Where an operator begins that is a process of the host: a forked process becomes one.

It is small, so that a process with the operator's modules loaded can be kept ready to be forked.
"""

import os
import sys
from collections.abc import Mapping

from kubernetes.aio.config import kube_config

from dartes_operator.__main__ import main


def become_operator(environment: Mapping[str, str], log: str) -> None:
    """Run the operator with these variables, and none of the test's for Kubernetes; it logs to a file."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    for name in tuple(os.environ):
        if name.startswith(("DARTES_", "KUBE")):
            del os.environ[name]
    os.environ.update(environment)
    # It was read when the module was loaded, before the fork.
    kube_config.KUBE_CONFIG_DEFAULT_LOCATION = environment["KUBECONFIG"]
    sys.exit(main())
