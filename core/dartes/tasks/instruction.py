"""Instructions answered freely: the score is a reward model's, in the worker or behind a service.

Reads rows and settings; models and services are `dartes_worker.reward_models`'.
"""

from dataclasses import dataclass
from typing import ClassVar, Self

from dartes.errors import ConfigurationError
from dartes.tasks.base import (
    Grade,
    Prompt,
    Row,
    TaskDescription,
    refuse_answer_format,
    refuse_unknown_options,
    shorten,
)
from dartes.tasks.instruction_prompts import PROMPTS_OPTION, PromptSource
from dartes.tasks.python import TIMEOUT_OPTION, threshold_grade, whole_seconds

COMMON_OPTIONS = (PROMPTS_OPTION, TIMEOUT_OPTION)

DEFAULT_SERVICE_SECONDS = 120
"""Wall time of one request to a reward service, with its answer."""


@dataclass(frozen=True, slots=True)
class ScoringPlace:
    """Where one kind of score comes from: exactly one of a model and a service.

    Attributes
    ----------
    option
        The option that names it, for errors, such as `rewardModel`.
    model
        Source of a sequence classifier: a folder's path or `hf://org/name[@revision]`.
    service
        Address that answers are posted to.
    label
        Name or number of the class whose logit is the score, where the model has several.
    """

    option: str
    model: str | None = None
    service: str | None = None
    label: str | None = None

    @property
    def field(self) -> str:
        """The setting's whole name."""
        return f"task.options.{self.option}"


@dataclass(frozen=True, slots=True)
class InstructionTask:
    """Rows hold `prompt`, `messages` or `question`, or what `task.prompt` names; a model scores the answers.

    Attributes
    ----------
    prompts
        What makes prompts of rows.
    places
        Where scores come from, each with its weight in the sum that is the answer's score.
    pass_threshold
        Score from which an answer passes; None = above the unperturbed model's own, decided elsewhere.
    timeout_seconds
        Wall time of one request to a service.
    """

    prompts: PromptSource
    places: tuple[tuple[ScoringPlace, float], ...]
    pass_threshold: float | None = None
    timeout_seconds: int = DEFAULT_SERVICE_SECONDS

    name: ClassVar[str] = "instruction"
    gives_auxiliary: ClassVar[bool] = False
    has_score: ClassVar[bool] = True
    compares_with_parent: ClassVar[bool] = True
    grader: ClassVar[str] = "reward-model"

    @classmethod
    def from_spec(cls, spec: TaskDescription) -> Self:
        """See `Task.from_spec`. Whether model or service are there is not looked at here."""
        refuse_unknown_options(cls.name, spec.options, (*place_options("reward", "label"), *COMMON_OPTIONS))
        refuse_answer_format(cls.name, spec.answer_format)
        return cls(
            PromptSource.of(spec, raw_text=False),
            ((scoring_place(cls.name, spec, "reward", "label"), 1.0),),
            spec.pass_threshold,
            whole_seconds(spec, DEFAULT_SERVICE_SECONDS),
        )

    def check_row(self, row: Row) -> None:
        """See `Task.check_row`."""
        self.prompts.prompt(row)

    def prompt(self, row: Row) -> Prompt:
        """See `Task.prompt`."""
        return self.prompts.prompt(row)

    def reference(self, row: Row) -> str:
        """See `Task.reference`."""
        return self.prompts.reference(row)

    def grade(self, row: Row, completion: str) -> Grade:
        """Not possible here: answers are scored by the grader `reward-model`, several at a time."""
        del row, completion
        raise ConfigurationError(
            f"task '{self.name}' is graded by a reward model only: use dartes.rewards.opening.open_grader"
        )

    def grade_of(self, score: float) -> Grade:
        """The grade of an answer with this score, a finite number.

        Without a threshold nothing passes by itself: who knows the unperturbed model's score decides.
        """
        if self.pass_threshold is None:
            return Grade(passed=False, score=score, auxiliary=0.0)
        return threshold_grade(score, self.pass_threshold)


def place_options(what: str, label: str) -> tuple[str, str, str]:
    """The options that say where one kind of score comes from."""
    return f"{what}Model", f"{what}Service", label


def scoring_place(task: str, spec: TaskDescription, what: str, label: str) -> ScoringPlace:
    """Where one kind of score ("reward" or "cost") comes from.

    Raises
    ------
    ConfigurationError
        Neither or both of model and service are given, or a label without a model.
    """
    model, service = text_option(spec, f"{what}Model"), text_option(spec, f"{what}Service")
    wanted = spec.options.get(label)
    if (model is None) == (service is None):
        raise ConfigurationError(
            f"task.options: task '{task}' needs exactly one of {what}Model (a path or hf://org/name) and "
            f"{what}Service (http://...); {'both are' if model else 'neither is'} given"
        )
    if service is not None and not service.startswith(("http://", "https://")):
        raise ConfigurationError(
            f"task.options.{what}Service = {service!r}: must begin with http:// or https://"
        )
    if wanted is not None and model is None:
        raise ConfigurationError(f"task.options.{label}: a service has no labels; leave it out")
    option = f"{what}Model" if model is not None else f"{what}Service"
    return ScoringPlace(option, model, service, None if wanted is None else str(wanted))


def text_option(spec: TaskDescription, option: str) -> str | None:
    """An option that must be a text with something in it; None where it is not set."""
    value = spec.options.get(option)
    if value is not None and (not isinstance(value, str) or not value.strip()):
        raise ConfigurationError(
            f"task.options.{option} = {shorten(value)}: must be a text with something in it"
        )
    return value
