"""`spec.dart`: the difficulty state, what DART-ES adds to plain ES. Every part of it can be switched off."""

from typing import Annotated

from dartes.spec.base import Boolean, Integer, Real, SpecModel, about


class ReplaySpec(SpecModel):
    """Replay of problems that are hard but sometimes solved."""

    enabled: Annotated[Boolean, about("Replay hard problems; false fills every batch with fresh ones.")] = (
        True
    )
    ratio: Annotated[
        Real, about("Share of a batch that is offered to replayed problems, rho.", ge=0, le=1)
    ] = 0.2
    mastery_threshold: Annotated[
        Real, about("A problem whose pass rate history reaches this leaves the buffer.", ge=0, le=1)
    ] = 0.5
    zero_pass_patience: Annotated[
        Integer,
        about(
            "A problem that no member passed for so many visits in a row leaves the buffer.", ge=1, le=1000
        ),
    ] = 2
    cooldown_iterations: Annotated[
        Integer,
        about("Iterations that a replayed problem rests before it is replayed again.", ge=0, le=100_000),
    ] = 1
    max_visits_per_epoch: Annotated[
        Integer, about("How often one problem is replayed in an epoch at most.", ge=0, le=100_000)
    ] = 2


class DartSpec(SpecModel):
    """Reweighting by difficulty, replay, and the history that both read."""

    enabled: Annotated[
        Boolean, about("Use the difficulty state; false is plain ES (no reweighting, no replay).")
    ] = True
    reweighting: Annotated[
        Boolean, about("Weight problems by difficulty when members are scored; false weighs all alike.")
    ] = True
    history: Annotated[
        Boolean, about("Average pass rates over visits; false uses the latest visit's alone.")
    ] = True
    ema_decay: Annotated[Real, about("Share of the past in the pass rate history, beta.", ge=0, lt=1)] = 0.7
    weight_floor: Annotated[
        Real, about("Smallest weight of a problem: weight = floor + exp(-exponent x history).", ge=0, le=100)
    ] = 0.8
    weight_exponent: Annotated[
        Real, about("How fast a problem's weight falls as it is solved more often, kappa.", ge=0, le=100)
    ] = 3.0
    replay: Annotated[ReplaySpec, about("Replay of hard problems.")] = ReplaySpec()
