"""The settings that decide a run's batches and coefficients, and nothing else.

Plain ES and each ablation of DART-ES are values of these settings, not other code paths. This module does
not know files, engines or workers; a job file becomes settings by `AlgorithmSettings.from_spec`.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Self

from dartes.errors import ConfigurationError
from dartes.quotas import quotas
from dartes.tasks.rules import Fitness, GradingRules, grading_rules

if TYPE_CHECKING:
    from dartes.spec import JobSpec

SEED_LIMIT = 1 << 64
STAGE_LIMIT = 1 << 12
SET_LIMIT = 1 << 12
"""A stage and a set share the 24 bits that a random stream has for them (`stream_key`)."""


def stream_key(stage: int, index: int = 0) -> int:
    """The stage word of a random stream: of a stage, or of what is drawn from one of its sets alone."""
    return stage | index << 12


@dataclass(frozen=True, slots=True)
class SetSettings:
    """One data set of a stage: its share of each batch, relative to the others, and how it is graded."""

    weight: float = 1.0
    rules: GradingRules = field(default_factory=GradingRules)


@dataclass(frozen=True, kw_only=True)
class StageSettings:
    """One stage: its data sets and its length, in iterations of its own or in epochs.

    Raises ConfigurationError where a value is out of bounds.
    """

    sets: tuple[SetSettings, ...] = (SetSettings(),)
    iterations: int | None = None
    epochs: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= len(self.sets) <= SET_LIMIT:
            raise ConfigurationError(f"{len(self.sets)} data sets: a stage has 1 to {SET_LIMIT}")
        for one in self.sets:
            if not (math.isfinite(one.weight) and one.weight > 0):
                raise ConfigurationError(f"weight = {one.weight!r}: must be a finite number above 0")
            if not (math.isfinite(one.rules.auxiliary_weight) and one.rules.auxiliary_weight >= 0):
                raise ConfigurationError(
                    f"auxiliary_weight = {one.rules.auxiliary_weight!r}: must be a finite number, at least 0"
                )
        if (self.iterations is None) == (self.epochs is None):
            raise ConfigurationError(
                f"iterations = {self.iterations}, epochs = {self.epochs}: set exactly one of the two"
            )
        for name in ("iterations", "epochs"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ConfigurationError(f"{name} = {value!r}: must be at least 0")

    @property
    def against_parent(self) -> bool:
        """Whether some set's passes are scores above the unperturbed model's."""
        return any(one.rules.against_parent for one in self.sets)

    @property
    def scores_decide(self) -> bool:
        """Whether some set's fitness is the score."""
        return any(one.rules.fitness is Fitness.SCORE for one in self.sets)


@dataclass(frozen=True, kw_only=True)
class AlgorithmSettings:
    """What the algorithm reads; the defaults are those of the DART-ES paper's 1.5B runs.

    Raises ConfigurationError where a value is out of bounds. The bounds are those without which a rule has
    no meaning; the job model is stricter.
    """

    population_size: int = 30
    sigma: float = 0.001
    learning_rate: float = 0.0005
    batch_size: int = 200
    seed: int = 0
    antithetic: bool = False
    stages: tuple[StageSettings, ...]
    reweighting: bool = True
    replay: bool = True
    history: bool = True
    ema_decay: float = 0.7
    weight_floor: float = 0.8
    weight_exponent: float = 3.0
    replay_ratio: float = 0.2
    mastery_threshold: float = 0.5
    zero_pass_patience: int = 2
    cooldown_iterations: int = 1
    max_visits_per_epoch: int = 2

    def __post_init__(self) -> None:
        at_least_1 = ("population_size", "batch_size", "zero_pass_patience")
        at_least_0 = (
            *("sigma", "learning_rate", "weight_floor", "weight_exponent"),
            *("mastery_threshold", "cooldown_iterations", "max_visits_per_epoch"),
        )
        for name in at_least_1:
            self._require(name, getattr(self, name) >= 1, "at least 1")
        for name in at_least_0:
            value = getattr(self, name)
            self._require(name, math.isfinite(value) and value >= 0, "a finite number of at least 0")
        for name in ("ema_decay", "replay_ratio"):
            self._require(name, 0 <= getattr(self, name) <= 1, "between 0 and 1")
        self._require("seed", 0 <= self.seed < SEED_LIMIT, "at least 0 and below 2**64")
        if self.antithetic:
            self._require("population_size", self.population_size % 2 == 0, "even with antithetic pairs")
        if not 1 <= len(self.stages) <= STAGE_LIMIT:
            raise ConfigurationError(f"{len(self.stages)} stages: a run has 1 to {STAGE_LIMIT}")
        for number, stage in enumerate(self.stages):
            if len(self.stages) > 1 and 0 in (stage.iterations, stage.epochs):
                raise ConfigurationError(f"stage {number}: its length must be at least 1")
            for index, quota in enumerate(self.quotas[number]):
                if quota == 0:
                    raise ConfigurationError(
                        f"stage {number}, set {index}: weight {stage.sets[index].weight!r} of a batch of "
                        f"{self.batch_size} rounds to no problem"
                    )

    @classmethod
    def from_spec(cls, spec: "JobSpec") -> Self:
        """The settings of a job; `dart.enabled: false` is plain ES, without reweighting and replay.

        Raises ConfigurationError for an unknown task, or a part of a mix that is too small for the batch.
        """
        es, dart, replay = spec.es, spec.dart, spec.dart.replay
        return cls(
            population_size=es.population_size,
            sigma=es.sigma,
            learning_rate=es.learning_rate,
            batch_size=es.batch_size,
            seed=es.seed,
            antithetic=es.antithetic,
            stages=_stages(spec),
            reweighting=dart.enabled and dart.reweighting,
            replay=dart.enabled and replay.enabled,
            history=dart.history,
            ema_decay=dart.ema_decay,
            weight_floor=dart.weight_floor,
            weight_exponent=dart.weight_exponent,
            replay_ratio=replay.ratio,
            mastery_threshold=replay.mastery_threshold,
            zero_pass_patience=replay.zero_pass_patience,
            cooldown_iterations=replay.cooldown_iterations,
            max_visits_per_epoch=replay.max_visits_per_epoch,
        )

    def _require(self, name: str, holds: bool, allowed: str) -> None:
        if not holds:
            raise ConfigurationError(f"{name} = {getattr(self, name)!r}: must be {allowed}")

    @cached_property
    def quotas(self) -> tuple[tuple[int, ...], ...]:
        """Problems of every batch, by stage and set; they add up to the batch size."""
        return tuple(quotas(self.batch_size, [one.weight for one in stage.sets]) for stage in self.stages)

    @property
    def length_is_known(self) -> bool:
        """Whether the number of iterations is given; epochs take as many as replay leaves them."""
        return all(stage.epochs is None for stage in self.stages)

    def replay_slots(self, quota: int) -> int:
        """Replay slots of a set with `quota` problems in every batch: round(quota * rho), half to even.

        At most quota - 1, and 0 without replay. Counted from the full quota, also where an epoch's last share
        is short.
        """
        if not self.replay:
            return 0
        return min(round(quota * self.replay_ratio), quota - 1)


def one_stage(
    *, iterations: int | None = None, epochs: int | None = None, rules: GradingRules | None = None
) -> tuple[StageSettings, ...]:
    """The stages of a run on one data set."""
    sets = (SetSettings(rules=rules or GradingRules()),)
    return (StageSettings(sets=sets, iterations=iterations, epochs=epochs),)


def _stages(spec: "JobSpec") -> tuple[StageSettings, ...]:
    lengths = [(stage.iterations, stage.epochs) for stage in spec.dataset.stages]
    return tuple(
        StageSettings(
            sets=tuple(SetSettings(one.weight, grading_rules(one.task)) for one in sets),
            iterations=iterations,
            epochs=epochs,
        )
        for sets, (iterations, epochs) in zip(
            spec.training_stages(), lengths or [(spec.es.iterations, spec.es.epochs)], strict=True
        )
    )
