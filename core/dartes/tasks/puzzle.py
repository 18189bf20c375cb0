"""Puzzles of `reasoning-gym`: graded by the puzzle's own scorer where that is safe, by ours where it is not.

An answer's score is from 0 to 1; it passes from `passThreshold` on, which is a fully right answer by default.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import ClassVar, Self

from dartes.errors import ConfigurationError
from dartes.tasks.base import (
    JSON,
    Grade,
    Prompt,
    Row,
    RowError,
    TaskDescription,
    UnreadableReferenceError,
    column,
    refuse_answer_format,
    refuse_unknown_options,
    shorten,
    str_column,
)
from dartes.tasks.blocks import THINK_CLOSE, last_answer
from dartes.tasks.puzzle_audit import AUDITED
from dartes.tasks.puzzle_library import REQUIRED_METADATA, SCORER_ERRORS, Scorer, library, library_scorer
from dartes.tasks.puzzle_own import OWN, own_scorer
from dartes.tasks.templates import Template, build_prompt

CHAT_PROMPT = """\
{question}

Think as long as you need. Then write the answer alone, in the form that the question asks for, between
<answer> and </answer>.
"""

ANSWER_LIMIT = 10_000
"""Characters of the longest answer that is scored."""

ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class PuzzleTask:
    """Rows hold `question`, `answer` (null where any right one counts), `metadata` and `dataset`."""

    template: Template
    system: str | None = None
    dataset: str | None = None
    pass_threshold: float = 1.0

    name: ClassVar[str] = "puzzle"

    @classmethod
    def from_spec(cls, spec: TaskDescription) -> Self:
        """See `Task.from_spec`; the prompt is a chat. Loads the library, before any answer is timed."""
        refuse_answer_format(cls.name, spec.answer_format)
        refuse_unknown_options(cls.name, spec.options, ("dataset",))
        threshold = 1.0 if spec.pass_threshold is None else spec.pass_threshold
        if not 0.0 < threshold <= 1.0:
            raise ConfigurationError(
                f"task.passThreshold: must be above 0 and at most 1 for task 'puzzle', not {threshold}"
            )
        dataset = spec.options.get("dataset")
        name = None if dataset is None else _known(str(dataset), "task.options.dataset")
        library()
        return cls(Template(spec.prompt or CHAT_PROMPT), spec.system, name, threshold)

    def check_row(self, row: Row) -> None:
        """See `Task.check_row`; a reference answer must pass by its own scorer."""
        str_column(row, "question")
        self.template.check(row)
        name, metadata, reference = self._puzzle(row), _metadata(row), _reference(row)
        if reference is None:
            _check_without_reference(name, metadata)
            return
        try:
            score = _scorer(name)(reference.strip(), reference, metadata)
        except SCORER_ERRORS as error:
            raise UnreadableReferenceError(
                f"the scorer of puzzle '{name}' cannot use this row ({type(error).__name__}: {error})"
            ) from error
        if score < 1.0 - ROUNDING:
            raise UnreadableReferenceError(
                f"column 'answer' gets {score:.3g} from the scorer of puzzle '{name}': {shorten(reference)}"
            )

    def prompt(self, row: Row) -> Prompt:
        """See `Task.prompt`."""
        return build_prompt(self.template, self.system, row, chat=True)

    def reference(self, row: Row) -> str:
        """See `Task.reference`."""
        return _reference(row) or ""

    def grade(self, row: Row, completion: str) -> Grade:
        """See `Task.grade`; score and auxiliary are both the scorer's, partial credit included."""
        name, metadata, reference = self._puzzle(row), _metadata(row), _reference(row)
        answer = find_answer(completion, whole=reference is None or "\n" in reference.strip())
        if not answer:
            return Grade(False, 0.0, 0.0, "no answer")
        if len(answer) > ANSWER_LIMIT:
            return Grade(False, 0.0, 0.0, f"an answer of more than {ANSWER_LIMIT:,} characters")
        try:
            score = _scorer(name)(answer, reference, metadata)
        except SCORER_ERRORS:
            score = 0.0
        score = min(1.0, score) if score > 0.0 else 0.0  # a score that is no number counts as none
        passed = score >= self.pass_threshold - ROUNDING
        reason = "" if passed else f"scored {score:.3g} by the rules of {name}"
        return Grade(passed, score, score, reason, " ".join(answer.split()))

    def _puzzle(self, row: Row) -> str:
        value = row.get("dataset") or _metadata(row).get("source_dataset") or self.dataset
        if value is None:
            raise RowError(
                "no puzzle is named: add a column 'dataset', or name it with task.options.dataset "
                f"(columns there are: {', '.join(sorted(row))})"
            )
        return _known(str(value), "column 'dataset'")


def find_answer(text: str, *, whole: bool) -> str:
    """The last answer block; without one, what follows the thinking: all of it or its last line."""
    inside = last_answer(text)
    if inside is not None:
        return inside.strip()
    rest = text.rpartition(THINK_CLOSE)[2].strip()
    return rest if whole else rest.rpartition("\n")[2].strip()


def _check_without_reference(name: str, metadata: Mapping[str, JSON]) -> None:
    if name not in REQUIRED_METADATA:
        raise RowError(f"column 'answer' is null, and puzzle '{name}' has one right answer: give it")
    missing = [key for key in REQUIRED_METADATA[name] if key not in metadata]
    if missing:
        there = ", ".join(sorted(metadata)) or "none"
        raise RowError(
            f"column 'metadata' lacks {', '.join(missing)} of puzzle '{name}' (there are: {there})"
        )


def _scorer(name: str) -> Scorer:
    return own_scorer(name) or library_scorer(name)


def _known(text: str, where: str) -> str:
    name = text.replace("-", "_")
    if name in AUDITED or name in OWN:
        return name
    there = sorted({*AUDITED, *OWN})
    close = ", ".join(get_close_matches(name, there, n=5) or there[:5])
    raise RowError(f"{where}: no puzzle is named {shorten(text)} (close to it: {close}; {len(there)} in all)")


def _reference(row: Row) -> str | None:
    value = column(row, "answer")
    if value is None or isinstance(value, str):
        return value
    raise RowError(
        f"column 'answer' must hold text, or null where any right answer counts, not {shorten(value)}"
    )


def _metadata(row: Row) -> Mapping[str, JSON]:
    value = row.get("metadata")
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise RowError(f"column 'metadata' is not JSON: {error}") from error
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise RowError(f"column 'metadata' must hold a JSON object, not {shorten(value)}")
    return value
