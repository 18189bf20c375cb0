"""How a cluster is to be started: what `up` takes and what later commands need to know of it.

Values only. The short node timers are one profile here, so that no caller has to know the flags.
"""

from dataclasses import asdict, dataclass, field
from typing import Any, Final, Self

from .commands import ClusterError

COMPONENTS: Final = ("apiserver", "controller-manager", "scheduler", "kubelet")
FAST_NODE_LOSS: Final = {
    "apiserver": ("--default-not-ready-toleration-seconds=5", "--default-unreachable-toleration-seconds=5"),
    "controller-manager": ("--node-monitor-grace-period=8s", "--node-monitor-period=2s"),
}
"""A silent node is NotReady after about 10 s, its pods are evicted 5 s later (usually 50 s, 5 minutes)."""


@dataclass(frozen=True, slots=True)
class Options:
    """The settings of one cluster."""

    nodes: int = 2
    gpus: int = 0
    """Fake GPUs (nvidia.com/gpu) that each node of the start advertises."""
    audit: bool = False
    fast_node_loss: bool = False
    flags: tuple[str, ...] = field(default=())
    """COMPONENT:FLAG, one for each extra flag."""

    def __post_init__(self) -> None:
        if not 1 <= self.nodes <= 20:
            raise ClusterError(f"--nodes {self.nodes}: allowed are 1 to 20")
        for each in self.flags:
            component, _, flag = each.partition(":")
            if component not in COMPONENTS or not flag.startswith("--"):
                raise ClusterError(
                    f"--arg {each}: write COMPONENT:--flag=value, COMPONENT one of {', '.join(COMPONENTS)}"
                )

    def extra(self, component: str) -> list[str]:
        """The flags of one component that aren't its usual ones; later ones win."""
        profile = FAST_NODE_LOSS.get(component, ()) if self.fast_node_loss else ()
        given = [each.partition(":")[2] for each in self.flags if each.partition(":")[0] == component]
        return [*profile, *given]

    def to_json(self) -> dict[str, Any]:
        """As `from_json` reads it."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        """What `to_json` gave."""
        return cls(**{**document, "flags": tuple(document["flags"])})
