"""Where a run stands, as people and the operator ask for it. Reads the run, changes nothing."""

from collections.abc import Iterable

from dartes.difficulty import estimated_iterations
from dartes.v1 import control_pb2 as wire
from dartes_coordinator.run import Run


def phase_of(run: Run) -> wire.Phase:
    """What the run is at."""
    if run.done:
        return wire.PHASE_DONE
    if run.paused is not None or run.workers.hindrance() is not None:
        return wire.PHASE_PAUSED
    if not run.workers.connected():
        return wire.PHASE_WAITING_FOR_WORKERS
    return wire.PHASE_FINISHING if run.round.batch is None else wire.PHASE_RUNNING


def status_response(incarnation: int, run: Run, placements: Iterable[str] = ()) -> wire.StatusResponse:
    """How far the run is, how fast it goes, when it will end and what hinders it."""
    settings, progress = run.plan.settings, run.progress
    committed, pace = progress.iteration, progress.pace
    total = estimated_iterations(settings, progress.state, committed)
    connected = run.workers.connected()
    order = {name: position for position, name in enumerate(run.plan.evaluation_sets)}
    return wire.StatusResponse(
        phase=phase_of(run),
        message=run.paused or run.workers.hindrance() or "",
        incarnation=incarnation,
        iteration=committed,
        total_iterations=total,
        total_is_estimate=not settings.length_is_known,
        epoch=progress.state.epoch,
        stage=progress.state.stage,
        stages=len(settings.stages),
        leases_done=run.round.leases.done_count,
        leases_total=len(run.round.leases.tasks),
        train_pass_rate=pace.pass_rate,
        replay_buffer_size=progress.state.buffer_size,
        tokens_per_second=pace.tokens_per_second,
        last_iteration_seconds=pace.seconds[-1] if pace.seconds else 0.0,
        estimated_remaining_seconds=pace.remaining_seconds(max(0, total - committed)),
        workers_connected=len(connected),
        workers_caught_up=sum(w.iteration == committed for w in connected),
        evaluations=[
            wire.EvaluationScore(
                set_name=e.set_name,
                iteration=e.iteration,
                passed=int(e.passed.sum()),
                problems=len(e.passed),
            )
            # The job's order, its first set first: what a reader that shows one of them takes.
            for e in sorted(
                progress.evaluations, key=lambda e: (e.iteration, order.get(e.set_name, len(order)))
            )
            if "no_base" not in e.beside  # no accuracy: there is no base model to win over
        ],
        journal_hash=progress.hashes[-1].hex() if progress.hashes else "",
        weight_digest=run.replicas.agreed or "",
        notes=run.ledger.notes,
        placements=placements,
    )
