"""Who enters and leaves the replay buffer: the rules for the visited problems, and the reasons.

Pure and elementwise over a batch; eligibility for a slot (cooldown, cap, window) is `batch`'s concern.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from dartes.difficulty.settings import AlgorithmSettings


class MembershipChange(StrEnum):
    """What a visit did to a problem's place in the replay buffer."""

    ADMITTED = "Admitted"
    """Entered: some member passed it, and it is not mastered."""
    MASTERED = "Mastered"
    """Left: its estimated pass rate reached the mastery threshold."""
    ZERO_PASS = "ZeroPass"
    """Left: no member passed it on as many visits in a row as the patience allows."""
    UNCHANGED = "Unchanged"


@dataclass(frozen=True, eq=False)
class Membership:
    """The buffer's state of the B' visited problems after their visit."""

    in_buffer: NDArray[np.bool_]
    zero_visits: NDArray[np.int32]
    """Consecutive visits without a pass, this one included; int32[B']."""
    changes: tuple[MembershipChange, ...]


def decide_membership(
    settings: AlgorithmSettings,
    in_buffer: NDArray[np.bool_],
    zero_visits: NDArray[np.int32],
    pass_rates: NDArray[np.float64],
    estimates: NDArray[np.float64],
) -> Membership:
    """Membership after a visit; all arrays are of length B', `estimates` is what stands for pbar_j.

    In this order: mastered -> out; else no pass, for the patience-th time or more in a row -> out; else a
    pass -> in; else as before. Without replay the buffer stays as it is (empty); zero visits still count.
    """
    no_pass = pass_rates == 0.0
    zero_after = np.where(no_pass, zero_visits + 1, 0).astype(np.int32)
    if not settings.replay:
        unchanged = (MembershipChange.UNCHANGED,) * in_buffer.size
        return Membership(in_buffer.copy(), zero_after, unchanged)
    mastered = estimates >= settings.mastery_threshold
    given_up = ~mastered & no_pass & (zero_after >= settings.zero_pass_patience)
    admitted = ~mastered & ~no_pass
    in_after = admitted | (in_buffer & ~mastered & ~given_up)
    changes = [MembershipChange.UNCHANGED] * in_buffer.size
    for position in np.flatnonzero(in_after != in_buffer):
        if in_after[position]:
            changes[position] = MembershipChange.ADMITTED
        elif mastered[position]:
            changes[position] = MembershipChange.MASTERED
        else:
            changes[position] = MembershipChange.ZERO_PASS
    return Membership(in_after, zero_after, tuple(changes))
