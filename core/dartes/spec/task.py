"""`spec.task`: how a problem becomes a prompt and how an answer is graded.

A kind is the name of an entry point, so that a task installed by the user works; whether it exists is checked
when a job file is loaded, not here.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

from pydantic import Field, Strict

from dartes.spec.base import IntOrString, Real, Refusal, SecretName, SpecModel, Text, about, exactly_one

PYTHON_KIND = "python"


class AnswerFormat(StrEnum):
    """Where a task looks for the answer."""

    TAGS = "Tags"
    BOXED = "Boxed"


class Fitness(StrEnum):
    """What a member is rewarded for: the pass bit, or the grader's score."""

    PASS = "Pass"
    SCORE = "Score"


class ConfigMapReference(SpecModel):
    """Python source kept in a ConfigMap of the job's namespace."""

    name: Annotated[SecretName, about("Name of the ConfigMap.")]
    key: Annotated[Text, about("Key that holds the Python source.", min_length=1, max_length=253)] = (
        "reward.py"
    )
    function: Annotated[
        Text,
        about("Function of that file to call.", max_length=128, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$"),
    ] = "reward"


class PythonTask(SpecModel):
    """The user's own reward function, with the signature that TRL uses."""

    function: Annotated[
        Text | None,
        about(
            "A function that can be imported, as module:function.",
            max_length=253,
            pattern=r"^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*$",
        ),
    ] = None
    config_map: Annotated[ConfigMapReference | None, about("Python source kept in a ConfigMap.")] = None

    def rules(self) -> Iterator[Refusal]:
        yield from exactly_one(self, "function", "config_map", advice="it says where the reward function is")


class TaskSpec(SpecModel):
    """The task: prompt, grader and how a grade becomes fitness."""

    kind: Annotated[
        Text,
        about(
            "Name of the task, in lower case: addition, arithmetic, countdown, gsm8k, the name under which "
            "an installed package offers one (entry points dartes.tasks), or python for your own function.",
            min_length=1,
            max_length=63,
        ),
    ]
    prompt: Annotated[
        Text | None,
        about(
            "Prompt template; {column} stands for a column of the problem. The task's own prompt if not set.",
            min_length=1,
            max_length=16384,
        ),
    ] = None
    system: Annotated[
        Text | None,
        about(
            "System message put before the prompt of a chat model. The task's own if not set.",
            max_length=16384,
        ),
    ] = None
    answer_format: Annotated[
        AnswerFormat | None,
        about(
            "Where the answer is looked for: Tags (<answer>...</answer>) or Boxed (\\boxed{...}). "
            "The task's own if not set."
        ),
    ] = None
    fitness: Annotated[
        Fitness,
        about("What a member is rewarded for: Pass (right or wrong) or Score (the grader's number)."),
    ] = Fitness.PASS
    pass_threshold: Annotated[
        Real | None, about("Score from which an answer counts as passed.", ge=-1e9, le=1e9)
    ] = None
    auxiliary_weight: Annotated[
        Real,
        about("Weight of the auxiliary score (the format of an answer) in the fitness.", ge=0, le=100),
    ] = 0.1
    options: Annotated[
        dict[Annotated[str, Strict(), Field(min_length=1, max_length=63)], IntOrString],
        about("Settings of this kind of task, by name; each an integer or a text.", max_length=64),
    ] = Field(default_factory=dict)
    python: Annotated[PythonTask | None, about("Your own reward function; only with kind: python.")] = None

    def rules(self) -> Iterator[Refusal]:
        if self.python is not None and self.kind != PYTHON_KIND:
            yield Refusal(
                "python",
                f"only used with kind: {PYTHON_KIND}, and kind is {self.kind!r}: remove it or change kind",
                ("python", "kind"),
            )
        if self.python is None and self.kind == PYTHON_KIND:
            yield Refusal(
                "python",
                f"kind: {PYTHON_KIND} needs it: set task.python.function to module:function",
                ("python", "kind"),
            )
