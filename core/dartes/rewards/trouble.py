"""The words by which everybody knows that a run waits for its rewards, and not for a disk."""

from typing import Final

REWARDS_UNAVAILABLE: Final = "rewards are unavailable"
"""How a message about a reward service that holds the run up begins; a worker's name may stand before it."""
