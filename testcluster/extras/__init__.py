"""What can be added to a running cluster: fake nodes, metrics, a queue. Each is a module with `start`.

An extra is a process of the host or pods in the cluster; `down` takes it away with everything else.
"""

from collections.abc import Callable
from typing import Final

from ..machinery import Machinery
from . import kueue, kwok, metrics_server

EXTRAS: Final[dict[str, Callable[[Machinery], None]]] = {
    kwok.NAME: kwok.start,
    kueue.NAME: kueue.start,
    metrics_server.NAME: metrics_server.start,
}
"""By name: starts the extra in the running cluster, and nothing where it runs already."""
