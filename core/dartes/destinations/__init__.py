"""Where a finished model goes: a volume, an object store or the hub; each takes it whole or not at all.

Knows what a place is, never how a model is made.
"""

from dartes.destinations.base import Delivered, Destination, Standing, deliver
from dartes.destinations.choice import Choice, Chosen, Evaluated, Wanted, choose, recorded_evaluations
from dartes.destinations.opening import CLUSTER_SCHEMES, LOCAL_SCHEMES, open_destination

__all__ = [
    "CLUSTER_SCHEMES",
    "LOCAL_SCHEMES",
    "Choice",
    "Chosen",
    "Delivered",
    "Destination",
    "Evaluated",
    "Standing",
    "Wanted",
    "choose",
    "deliver",
    "open_destination",
    "recorded_evaluations",
]
