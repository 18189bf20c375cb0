"""The loop of a worker, driven by a script: the leases it answers, and when it registers again or leaves."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dartes.errors import ExitCode
from dartes.rewards.opening import Grader
from dartes.rpc.encoding import unpack_bits
from dartes.tasks.base import Grade, Row
from dartes.v1 import population_pb2 as wire
from dartes_worker.agent import REFUSALS_BEFORE_GIVING_UP
from dartes_worker.client import IncarnationOverError, ReportRefusedError
from dartes_worker.engines.base import Segment
from dartes_worker.evaluate import Evaluator, Sampling
from dartes_worker.master import MasterWeights
from dartes_worker.setup import Equipment
from dartes_worker.timing import Stopwatch
from dartes_worker.trouble import Trouble

from .scripted import (
    BATCH,
    DONE,
    HASHES,
    ScriptedClient,
    agent_of,
    apply,
    digest_after,
    member,
    weights_after,
)


def test_a_new_worker_attests_the_base_model_and_leaves_when_the_run_is_done(
    equipment: Equipment, tmp_path: Path
) -> None:
    client = ScriptedClient(DONE)
    assert agent_of(client, equipment, tmp_path).run() is ExitCode.DONE
    assert client.attested == [(0, digest_after(equipment, 0), True)]
    assert not client.registered[0].HasField("weights"), "it has none yet"


def test_a_member_is_answered_with_its_own_weights(equipment: Equipment, tmp_path: Path) -> None:
    client = ScriptedClient(member("1-1", problems=BATCH), DONE)
    agent_of(client, equipment, tmp_path).run()
    ((lease_id, iteration, result),) = client.reports
    master = weights_after(equipment, 0)
    master.write(equipment.engine.segments(), 5, 0.003)
    equipment.engine.weights_changed()
    sampling = Sampling(7, 0, 2)
    answering = equipment.evaluator.answer(equipment.stages[0], BATCH, 0, 1, sampling, Stopwatch())
    expected = answering.outcome()
    assert isinstance(result, wire.EvaluateResult)
    assert (lease_id, iteration, result.member) == ("1-1", 0, 2)
    assert unpack_bits(result.passed, len(BATCH)).tolist() == expected.passed.tolist()


def test_the_batch_is_told_once_and_remembered(equipment: Equipment, tmp_path: Path) -> None:
    slices = [member(f"1-{k}", slice=k, slices=3, problems=BATCH if k == 0 else ()) for k in range(3)]
    client = ScriptedClient(*slices, DONE)
    agent_of(client, equipment, tmp_path).run()
    assert [known for _, known in client.asked] == [0, 1, 1, 1]
    positions = [p for _, _, r in client.reports if isinstance(r, wire.EvaluateResult) for p in r.positions]
    assert sorted(positions) == list(range(len(BATCH))), "the slices cover the batch once"


def test_a_lease_that_comes_with_the_reply_to_a_report_is_not_asked_for(
    equipment: Equipment, tmp_path: Path
) -> None:
    client = ScriptedClient(member("1-1", problems=BATCH), DONE)
    client.carried = [member("1-2", seed=6), None]
    assert agent_of(client, equipment, tmp_path).run() == ExitCode.DONE
    assert [lease_id for lease_id, _, _ in client.reports] == ["1-1", "1-2"]
    assert client.questions == [(0, 1), (0, 1)]
    assert client.asked == [(0, 0), (0, 1)]


def test_leases_that_come_together_are_reported_together(equipment: Equipment, tmp_path: Path) -> None:
    together = member("1-1", problems=BATCH)
    together.more.append(member("1-2", seed=6, member=3).evaluate)
    client = ScriptedClient(together, DONE)
    assert agent_of(client, equipment, tmp_path).run() == ExitCode.DONE
    ((lease_id, _, first),) = client.reports
    ((second,),) = client.more
    assert isinstance(first, wire.EvaluateResult)
    assert (lease_id, first.member, second.member) == ("1-1", 2, 3)
    assert first.passed != second.passed, "each is answered with its own weights"


def test_a_batch_that_it_was_not_told_makes_it_register_again(equipment: Equipment, tmp_path: Path) -> None:
    client = ScriptedClient(member("1-1"), member("1-2", problems=BATCH), DONE)
    assert agent_of(client, equipment, tmp_path).run() is ExitCode.DONE
    assert [request.HasField("weights") for request in client.registered] == [False, True]
    assert [lease_id for lease_id, _, _ in client.reports] == ["1-2"]
    assert [rebuilt for _, _, rebuilt in client.attested] == [True, False], "its weights are still good"


def test_a_restarted_coordinator_is_registered_with_again(equipment: Equipment, tmp_path: Path) -> None:
    client = ScriptedClient(apply(2), IncarnationOverError("incarnation 1 is over"), DONE)
    assert agent_of(client, equipment, tmp_path).run() is ExitCode.DONE
    assert client.registered[1].weights.iteration == 2
    assert client.registered[1].weights.row_hash == HASHES[1]


def test_an_evaluation_block_is_answered_by_the_parent(equipment: Equipment, tmp_path: Path) -> None:
    lease = wire.EvaluateLease(
        lease_id="1-1",
        kind=wire.EVALUATE_KIND_HELD_OUT,
        evaluation_set="held-out",
        first_row=4,
        row_count=8,
        log_completions=2,
    )
    client = ScriptedClient(wire.LeaseResponse(evaluate=lease), DONE)
    agent_of(client, equipment, tmp_path).run()
    ((_, _, result),) = client.reports
    weights_after(equipment, 0).write(equipment.engine.segments(), 0, 0.0)
    equipment.engine.weights_changed()
    sampling = Sampling.of_block(7, 0, "held-out", 4)
    held_out = equipment.held_out["held-out"]
    expected = equipment.evaluator.answer(held_out, range(4, 12), 0, 1, sampling, Stopwatch()).outcome()
    assert isinstance(result, wire.EvaluateResult)
    assert (result.evaluation_set, result.first_row, result.row_count) == ("held-out", 4, 8)
    assert unpack_bits(result.passed, 8).tolist() == expected.passed.tolist()
    assert [(c.row, c.text) for c in result.completions] == [
        (4 + k, expected.generations[k].text) for k in range(2)
    ]


def test_told_to_drain_it_leaves(equipment: Equipment, tmp_path: Path) -> None:
    client = ScriptedClient(wire.LeaseResponse(drain=wire.DrainAction()))
    assert agent_of(client, equipment, tmp_path).run() is ExitCode.DRAINED


def test_a_signal_lets_it_finish_its_lease_and_ends_its_waiting(equipment: Equipment, tmp_path: Path) -> None:
    client = ScriptedClient(member("1-1", problems=BATCH), None)
    agent = agent_of(client, equipment, tmp_path)
    client.before_lease = agent.drain
    assert agent.run() is ExitCode.DRAINED
    assert [lease_id for lease_id, _, _ in client.reports] == ["1-1"]
    assert client.interrupted
    assert len(client.asked) == 1


def test_an_empty_wait_asks_again(equipment: Equipment, tmp_path: Path) -> None:
    client = ScriptedClient(wire.LeaseResponse(wait=wire.WaitAction()), None, DONE)
    assert agent_of(client, equipment, tmp_path).run() is ExitCode.DONE
    assert len(client.asked) == 3


def test_refused_reports_end_it_when_they_come_in_a_row(equipment: Equipment, tmp_path: Path) -> None:
    refusal = ReportRefusedError("positions 1..2 were covered by another slice")
    leases = [member(f"1-{k}", problems=BATCH) for k in range(6)]
    client = ScriptedClient(*leases, DONE)
    client.refusals = [refusal, refusal, None, refusal, refusal, None]
    assert agent_of(client, equipment, tmp_path).run() is ExitCode.DONE
    client = ScriptedClient(*leases)
    client.refusals = [refusal] * REFUSALS_BEFORE_GIVING_UP
    with pytest.raises(ReportRefusedError):
        agent_of(client, equipment, tmp_path).run()
    assert len(client.asked) == REFUSALS_BEFORE_GIVING_UP


def test_the_same_member_is_written_once_for_all_its_slices(
    equipment: Equipment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[tuple[int, float]] = []
    write = MasterWeights.write

    def noted(self: MasterWeights, segments: Sequence[Segment], seed: int, sigma: float) -> None:
        written.append((seed, sigma))
        write(self, segments, seed, sigma)

    monkeypatch.setattr(MasterWeights, "write", noted)
    script = [
        member("1-1", problems=BATCH, sigma=0.5, slices=2),
        member("1-2", sigma=0.5, slice=1, slices=2),
        member("1-3", sigma=-0.5),
        apply(1),
        member("1-4", sigma=-0.5, problems=BATCH, iteration=1),
    ]
    agent_of(ScriptedClient(*script, DONE), replace(equipment), tmp_path).run()
    assert written == [(0, 0.0), (5, 0.5), (5, -0.5), (5, -0.5)], "other weights are another member"


class Held:
    """A grader that answers when it is let go, as if its service had been away."""

    def __init__(self, grader: Grader) -> None:
        self._grader = grader
        self.go_on = threading.Event()

    def grade(self, rows: Sequence[Row], completions: Sequence[str]) -> list[Grade]:
        assert self.go_on.wait(60)
        return self._grader.grade(rows, completions)

    def close(self) -> None:
        raise AssertionError("the grader is the fixture's")


@pytest.fixture
def held(equipment: Equipment, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Equipment, Held]]:
    """Equipment whose training answers are graded by a held grader."""
    monkeypatch.setattr("dartes_worker.evaluate.LOOK_SECONDS", 0.01)
    (part,) = equipment.stages[0].parts
    holding = Held(part.grader())
    problems = replace(
        equipment.stages[0], parts=(replace(part, grader=lambda: holding),), _grades={}, _graded_in=-1
    )
    evaluator = Evaluator(equipment.engine)
    yield replace(equipment, stages=(problems,), evaluator=evaluator, trouble=Trouble()), holding
    holding.go_on.set()
    evaluator.close()


def test_a_coordinator_that_restarts_while_rewards_are_awaited_is_registered_with_again(
    held: tuple[Equipment, Held], tmp_path: Path
) -> None:
    equipment, grader = held
    client = ScriptedClient(member("1-1", problems=BATCH), member("2-1", problems=BATCH), DONE)

    def restarted() -> None:
        client.while_waiting = lambda: None
        grader.go_on.set()
        raise IncarnationOverError("incarnation 1 is over")

    client.while_waiting = restarted
    assert agent_of(client, equipment, tmp_path).run() is ExitCode.DONE
    assert len(client.registered) == 2
    assert [lease_id for lease_id, _, _ in client.reports] == ["2-1"]


def test_told_to_leave_while_rewards_are_unavailable_it_leaves_at_once(
    held: tuple[Equipment, Held], tmp_path: Path
) -> None:
    equipment, _ = held
    client = ScriptedClient(member("1-1", problems=BATCH))
    agent = agent_of(client, equipment, tmp_path)
    equipment.trouble.tell("rewards are unavailable")
    client.while_waiting = agent.drain
    assert agent.run() is ExitCode.DRAINED
    assert client.reports == []
