"""Preferences with a price: a reward model's score less a multiple of a cost model's.

As `instruction`, but for the second score: for models that are to be helpful within bounds.
"""

import re
from dataclasses import dataclass
from typing import ClassVar, Self

from dartes.errors import ConfigurationError
from dartes.tasks.base import TaskDescription, refuse_answer_format, refuse_unknown_options, shorten
from dartes.tasks.instruction import (
    COMMON_OPTIONS,
    DEFAULT_SERVICE_SECONDS,
    InstructionTask,
    place_options,
    scoring_place,
)
from dartes.tasks.instruction_prompts import PromptSource
from dartes.tasks.python import whole_seconds

LAMBDA_OPTION = "lambda"
_DECIMAL = re.compile(r"[0-9]{1,6}(\.[0-9]{1,9})?")


@dataclass(frozen=True, slots=True)
class PreferenceTask(InstructionTask):
    """Rows as those of `instruction`; the score is reward - lambda x cost."""

    name: ClassVar[str] = "preference"
    gives_auxiliary: ClassVar[bool] = False

    @classmethod
    def from_spec(cls, spec: TaskDescription) -> Self:
        """See `Task.from_spec`. Whether models or services are there is not looked at here."""
        options = (*place_options("reward", "label"), *place_options("cost", "costLabel"))
        refuse_unknown_options(cls.name, spec.options, (*options, LAMBDA_OPTION, *COMMON_OPTIONS))
        refuse_answer_format(cls.name, spec.answer_format)
        reward = scoring_place(cls.name, spec, "reward", "label")
        cost = scoring_place(cls.name, spec, "cost", "costLabel")
        return cls(
            PromptSource.of(spec, raw_text=False),
            ((reward, 1.0), (cost, -_factor(spec))),
            spec.pass_threshold,
            whole_seconds(spec, DEFAULT_SERVICE_SECONDS),
        )


def _factor(spec: TaskDescription) -> float:
    """Option `lambda`: a whole number, or a decimal fraction as text, since options hold no other numbers."""
    value = spec.options.get(LAMBDA_OPTION, 1)
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    if not _DECIMAL.fullmatch(text):
        raise ConfigurationError(
            f"task.options.{LAMBDA_OPTION} = {shorten(value)}: must be a number from 0 on; put a fraction in "
            'quotes, such as "0.5"'
        )
    return float(text)
