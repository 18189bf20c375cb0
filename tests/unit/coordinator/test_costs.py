"""What a round cost: parts of the workers' time, and shares of those parts, which are no parts."""

from dartes.v1 import population_pb2 as wire
from dartes_coordinator.round import Costs


def test_the_long_tail_is_summed_beside_the_parts_and_is_none_of_them() -> None:
    costs = Costs()
    for seconds in (1.0, 2.0):
        timings = wire.Timings(
            generate=10 * seconds, write=1, tail_seconds=seconds, alone_seconds=seconds / 2
        )
        costs = costs.plus(wire.EvaluateResult(), timings)
    assert (costs.tail_seconds, costs.alone_seconds) == (3.0, 1.5)
    assert costs.seconds["generate"] == 30.0
    assert sum(costs.seconds.values()) == 32.0
