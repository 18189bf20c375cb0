"""`spec.task`: how a problem becomes a prompt and how an answer is graded.

A kind is the name of an entry point, so that a task installed by the user works; whether it exists is checked
when a job file is loaded, not here.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

from pydantic import Field, Strict

from dartes.spec.base import IntOrString, Real, Refusal, SecretName, SpecModel, Text, about, exactly_one
from dartes.tasks.rules import Fitness

__all__ = ["PYTHON_KIND", "AnswerFormat", "ConfigMapReference", "Fitness", "PythonTask", "TaskSpec"]

PYTHON_KIND = "python"


class AnswerFormat(StrEnum):
    """Where a task looks for the answer."""

    TAGS = "Tags"
    BOXED = "Boxed"


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
            "Name of the task, in lower case: addition, arithmetic, code, conciseness, countdown, gsm8k, "
            "ifeval, instruction, math, multiple-choice, preference, puzzle, sudoku, the name under which an "
            "installed package offers one (entry points dartes.tasks), or python for your own function.",
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
        Fitness | None,
        about(
            "What a member is rewarded for: Pass (right or wrong) or Score (the grader's number). If not "
            "set: Score for tasks whose answers are scored (instruction, preference, conciseness, python), "
            "Pass for all others."
        ),
    ] = None
    pass_threshold: Annotated[
        Real | None,
        about(
            "Score from which an answer counts as passed, for tasks whose answers are scored. If not set, "
            "0.5 for python and 1 for puzzle; answers of instruction and preference pass then that score "
            "above the unperturbed model's own; conciseness passes by length.",
            ge=-1e9,
            le=1e9,
        ),
    ] = None
    auxiliary_weight: Annotated[
        Real | None,
        about(
            "Weight of the auxiliary score (such as the format of an answer) in the fitness. If not set, the "
            "task's own: 0 for math, multiple-choice and conciseness, else 0.1.",
            ge=0,
            le=100,
        ),
    ] = None
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
