"""Code: programs that must pass a problem's tests, in the layouts of HumanEval, MBPP and LiveCodeBench.

The task says what to run and what the outcome means; the sandbox grader (`dartes.rewards.code`) runs it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from dartes.errors import ConfigurationError
from dartes.sandbox.runs import Limits, RunResult
from dartes.tasks.base import (
    JSON,
    Grade,
    Prompt,
    Row,
    RowError,
    TaskDescription,
    refuse_answer_format,
    refuse_pass_threshold,
    refuse_unknown_options,
    shorten,
)
from dartes.tasks.code_answers import opened_fence
from dartes.tasks.code_layouts import HumanEval, Layout, Mbpp, columns_of
from dartes.tasks.code_livecodebench import LiveCodeBench
from dartes.tasks.code_verdicts import Step, Verdict, judge, total
from dartes.tasks.templates import Template, build_prompt

OPTIONS: Mapping[str, tuple[int, int, int]] = {
    "secondsPerTest": (6, 1, 600),
    "memoryMiB": (1024, 128, 65_536),
    "maxTests": (0, 0, 100_000),
}
"""Option -> (default, least, most). `maxTests: 0` stands for all tests."""

LAYOUTS: Mapping[str, Layout] = {layout.name: layout for layout in (HumanEval(), LiveCodeBench(), Mbpp())}


@dataclass(frozen=True, slots=True)
class CodeTask:
    """Rows of one of `LAYOUTS`. Passed where all tests pass; the auxiliary score is the share that did."""

    limits: Limits
    template: Template | None = None
    system: str | None = None
    most_tests: int = 0

    name: ClassVar[str] = "code"
    grader: ClassVar[str] = "sandbox"

    @classmethod
    def from_spec(cls, spec: TaskDescription) -> Self:
        """See `Task.from_spec`. Without `system` the prompt is raw and ends where the program begins."""
        refuse_pass_threshold(cls.name, spec.pass_threshold)
        refuse_answer_format(cls.name, spec.answer_format)
        refuse_unknown_options(cls.name, spec.options, OPTIONS)
        seconds, memory, tests = (_option(spec.options, name) for name in OPTIONS)
        template = None if spec.prompt is None else Template(spec.prompt)
        return cls(Limits(seconds, memory), template, spec.system, tests)

    def check_row(self, row: Row) -> None:
        """See `Task.check_row`."""
        layout = layout_of(row)
        self._template(layout).check(layout.view(row))
        layout.check(row, self.limits, self.most_tests)

    def prompt(self, row: Row) -> Prompt:
        """See `Task.prompt`."""
        layout = layout_of(row)
        return build_prompt(
            self._template(layout), self.system, layout.view(row), chat=self.system is not None
        )

    def reference(self, row: Row) -> str:
        """See `Task.reference`: the solution that HumanEval and MBPP bring."""
        return layout_of(row).reference(row)

    def grade(self, row: Row, completion: str) -> Grade:
        """Refused: nothing that a model writes runs in this process."""
        del row, completion
        raise ConfigurationError(
            "task 'code' is graded in the sandbox only: use dartes.rewards.opening.open_grader"
        )

    def steps(self, row: Row, completion: str) -> tuple[Step, ...]:
        """The runs that grade an answer to a checked row, in order; stop after a verdict that is the last."""
        layout = layout_of(row)
        opened = "" if self.system is not None else opened_fence(self._template(layout).text)
        return layout.steps(row, opened + completion, self.limits, self.most_tests)

    def judge(self, step: Step, result: RunResult) -> Verdict:
        """What a run says of its step."""
        return judge(step, result)

    def total(self, steps: Sequence[Step], verdicts: Sequence[Verdict]) -> Grade:
        """The grade of an answer, given the verdicts as far as they were taken."""
        return total(steps, verdicts)

    def _template(self, layout: Layout) -> Template:
        if self.template is not None:
            return self.template
        return Template(layout.raw_prompt if self.system is None else layout.chat_prompt)


def layout_of(row: Row) -> Layout:
    """The layout of a row, by its columns; `RowError` where it has those of none."""
    if {"prompt", "test", "entry_point"} <= row.keys():
        return LAYOUTS[HumanEval.name]
    if {"question_content", "public_test_cases"} <= row.keys():
        return LAYOUTS[LiveCodeBench.name]
    if "test_list" in row and ("text" in row or "prompt" in row):
        return LAYOUTS[Mbpp.name]
    there = ", ".join(sorted(row)) or "none"
    raise RowError(
        f"the columns are of no layout of code problems (there are: {there}; needed: {columns_of(LAYOUTS)}); "
        "name them with dataset.columns"
    )


def _option(options: Mapping[str, JSON], name: str) -> int:
    default, least, most = OPTIONS[name]
    value = options.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ConfigurationError(
            f"task.options.{name}: must be a whole number from {least} to {most}, not {shorten(value)}"
        )
    return value
