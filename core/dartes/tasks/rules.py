"""How grades of a task become fitness: the task's own defaults, unless the job says otherwise.

Coordinator and workers read the same rules from the same job; nothing here grades.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from dartes.tasks.registry import task_named

DEFAULT_AUXILIARY_WEIGHT = 0.1


class Fitness(StrEnum):
    """What a member is rewarded for: the pass bit, or the grader's score (`task.fitness`)."""

    PASS = "Pass"
    SCORE = "Score"


class RuledTask(Protocol):
    """What is read of a job's `task` section."""

    @property
    def kind(self) -> str: ...
    @property
    def fitness(self) -> str | None: ...
    @property
    def pass_threshold(self) -> float | None: ...
    @property
    def auxiliary_weight(self) -> float | None: ...


@dataclass(frozen=True, slots=True)
class GradingRules:
    """The rules of one task.

    Attributes
    ----------
    fitness
        What stands for r_ij, the primary score.
    auxiliary_weight
        Weight of the auxiliary score in the fitness.
    against_parent
        Whether a pass is a score above the unperturbed model's on the same problem, which therefore answers
        each batch too.
    """

    fitness: Fitness = Fitness.PASS
    auxiliary_weight: float = DEFAULT_AUXILIARY_WEIGHT
    against_parent: bool = False

    @property
    def needs_scores(self) -> bool:
        """Whether scores decide anything, and so have to travel."""
        return self.fitness is Fitness.SCORE or self.against_parent


def grading_rules(task: RuledTask) -> GradingRules:
    """The rules of a job's task; raises `ConfigurationError` for an unknown kind."""
    kind = task_named(task.kind)
    own_fitness = Fitness.SCORE if getattr(kind, "has_score", False) else Fitness.PASS
    own_weight = float(getattr(kind, "default_auxiliary_weight", DEFAULT_AUXILIARY_WEIGHT))
    return GradingRules(
        fitness=own_fitness if task.fitness is None else Fitness(str(task.fitness)),
        auxiliary_weight=own_weight if task.auxiliary_weight is None else task.auxiliary_weight,
        against_parent=bool(getattr(kind, "compares_with_parent", False)) and task.pass_threshold is None,
    )
