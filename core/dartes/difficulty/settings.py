"""The settings that decide a run's batches and coefficients, and nothing else.

Plain ES and each ablation of DART-ES are values of these settings, not other code paths. This module does
not know files, engines or workers; a job file becomes settings by `AlgorithmSettings.from_spec`.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from dartes.errors import ConfigurationError

if TYPE_CHECKING:
    from dartes.spec import JobSpec

SEED_LIMIT = 1 << 64


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
    iterations: int | None = None
    epochs: int | None = None
    auxiliary_weight: float = 0.1
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
            *("sigma", "learning_rate", "auxiliary_weight", "weight_floor", "weight_exponent"),
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
        if (self.iterations is None) == (self.epochs is None):
            raise ConfigurationError(
                f"iterations = {self.iterations}, epochs = {self.epochs}: set exactly one of the two"
            )
        for name in ("iterations", "epochs"):
            value = getattr(self, name)
            self._require(name, value is None or value >= 0, "at least 0")
        if self.antithetic:
            self._require("population_size", self.population_size % 2 == 0, "even with antithetic pairs")

    @classmethod
    def from_spec(cls, spec: "JobSpec") -> Self:
        """The settings of a job; `dart.enabled: false` is plain ES, without reweighting and replay."""
        es, dart, replay = spec.es, spec.dart, spec.dart.replay
        return cls(
            population_size=es.population_size,
            sigma=es.sigma,
            learning_rate=es.learning_rate,
            batch_size=es.batch_size,
            seed=es.seed,
            antithetic=es.antithetic,
            iterations=es.iterations,
            epochs=es.epochs,
            auxiliary_weight=spec.task.auxiliary_weight,
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

    @property
    def replay_slots(self) -> int:
        """Replay slots of every batch: round(B * rho), half to even, at most B - 1; 0 without replay.

        Counted from the full batch size, also where an epoch's last batch is short.
        """
        if not self.replay:
            return 0
        return min(round(self.batch_size * self.replay_ratio), self.batch_size - 1)
