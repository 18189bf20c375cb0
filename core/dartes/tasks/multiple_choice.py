"""Questions with given choices: the letter, or the yes or no, that an answer settles on.

Layouts: BoolQ (`question`, `passage`, a true or false `answer`), SciKnowEval (`question`, `choices` with
`text` and `label`, `answerKey`) and MMLU (`question`, a list of `choices`, `answer` as an index or a letter).
"""

import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from string import ascii_uppercase
from typing import ClassVar, Self

from dartes.tasks.base import (
    Grade,
    Prompt,
    Row,
    RowError,
    TaskDescription,
    UnreadableReferenceError,
    column,
    refuse_answer_format,
    refuse_pass_threshold,
    refuse_unknown_options,
    shorten,
    str_column,
)
from dartes.tasks.blocks import last_box
from dartes.tasks.templates import Template, build_prompt

MOST_CHOICES = 10
TRUE_WORDS = frozenset({"yes", "true", "1"})
FALSE_WORDS = frozenset({"no", "false", "0"})

DEFAULT_PROMPT = """\
{question}

{options}

Think it over in a few sentences. Then end with one line of this form, with the letter of the right choice:
Answer: X
"""
BOOLEAN_PROMPT = """\
Text: {passage}

Question: {question}

Judge by the text. Think it over in a few sentences, then write yes or no as \\boxed{{yes}} or \\boxed{{no}}.
"""

# Each pattern starts at a fixed word or letter and its repetitions are bounded, so that all are linear.
_JSON_ANSWER = (
    r"""(["'])(?i:answer)\1\s{{0,8}}:\s{{0,8}}(["'])\s{{0,8}}(?P<letter>[{upper}{lower}])\s{{0,8}}\2"""
)
# "a" and "I" with a word behind them are words, not letters of choices.
_LETTER = (
    r"(?P<letter>[{upper}{lower}])(?<![ai](?=[ \t]{{1,8}}[A-Za-z]))(?<!I(?=[ \t]{{1,8}}[a-z]))"
    r"(?!_{{0,4}}[A-Za-z0-9])"
)
_OPENING = r"[*(_\[]{{0,4}}(?:\\[a-z]{{2,8}}\{{){{0,2}}\(?\s{{0,8}}"
_WRITTEN_ANSWER = rf"\b(?i:answer)[*_]{{{{0,4}}}}\s{{{{0,8}}}}:\s{{{{0,8}}}}{_OPENING}{_LETTER}"
_SAID_ANSWER = (
    rf"\b(?i:answer|choice|option)\s{{{{1,8}}}}is:?\s{{{{1,8}}}}{_OPENING}{_LETTER}"
    r"(?=[)\]}}*_\"']{{0,6}}(?:[.!;]|\s{{0,8}}(?:\Z|\n)|,?\s(?:because|since)\b))"
)
_LETTER_ALONE = r"(?<![A-Za-z0-9_'\u2019])(?P<letter>[{upper}])(?![A-Za-z0-9_'\u2019])"
_CORRECTION = re.compile(r"\b(?:wait|actually|no|not|but|however|instead|rather|correction)\b", re.IGNORECASE)

_BOX_DRESS = re.compile(
    r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit|mathsf|bf)\s*\{(.*)\}", re.DOTALL
)
_DRESSES = 3


@dataclass(frozen=True, slots=True)
class _Question:
    """A row read: `choices` is empty for a yes-or-no question; `right` is a letter, "yes" or "no"."""

    choices: tuple[str, ...]
    right: str


@dataclass(frozen=True, slots=True)
class MultipleChoiceTask:
    """A template's `{options}` is the lettered list of choices; its layout is told by a row's columns."""

    prompt_text: str | None = None
    system: str | None = None

    name: ClassVar[str] = "multiple-choice"
    gives_auxiliary: ClassVar[bool] = False
    default_auxiliary_weight: ClassVar[float] = 0.0

    @classmethod
    def from_spec(cls, spec: TaskDescription) -> Self:
        """See `Task.from_spec`."""
        refuse_pass_threshold(cls.name, spec.pass_threshold)
        refuse_answer_format(cls.name, spec.answer_format)
        refuse_unknown_options(cls.name, spec.options, ())
        return cls(spec.prompt, spec.system)

    def check_row(self, row: Row) -> None:
        """See `Task.check_row`."""
        str_column(row, "question")
        self._template(_question(row)).check({**row, "options": ""})

    def prompt(self, row: Row) -> Prompt:
        """See `Task.prompt`; always a chat."""
        question = _question(row)
        options = "\n".join(
            f"{letter}. {text}" for letter, text in zip(ascii_uppercase, question.choices, strict=False)
        )
        return build_prompt(self._template(question), self.system, {**row, "options": options}, chat=True)

    def reference(self, row: Row) -> str:
        """See `Task.reference`."""
        question = _question(row)
        if not question.choices:
            return question.right
        return f"{question.right}. {question.choices[ascii_uppercase.index(question.right)]}"

    def grade(self, row: Row, completion: str) -> Grade:
        """See `Task.grade`; there is no auxiliary score."""
        question = _question(row)
        answer = (
            chosen_letter(completion, len(question.choices)) if question.choices else yes_or_no(completion)
        )
        if not answer:
            return Grade.of("no choice is named" if question.choices else "no yes or no in a box")
        return Grade.of("" if answer == question.right else "another choice", answer=answer)

    def _template(self, question: _Question) -> Template:
        default = DEFAULT_PROMPT if question.choices else BOOLEAN_PROMPT
        return Template(self.prompt_text or default)


def chosen_letter(text: str, choices: int) -> str:
    """The letter that an answer settles on, or nothing.

    The last match counts, of the first of these that matches at all: JSON `"answer": "X"`; `answer: X`; a
    sentence `The answer is X.` that nothing behind it takes back; an upper-case letter of a choice that
    stands alone. In the first three a lower-case letter counts too, but no article: `answer: a gas` names no
    choice.
    """
    letters = ascii_uppercase[:choices]
    for form in (_JSON_ANSWER, _WRITTEN_ANSWER, _SAID_ANSWER, _LETTER_ALONE):
        pattern = re.compile(form.format(upper=letters, lower=letters.lower()), re.ASCII)
        last = deque(pattern.finditer(text), maxlen=1)
        if last and not (form is _SAID_ANSWER and _CORRECTION.search(text, last[0].end())):
            return last[0]["letter"].upper()
    return ""


def yes_or_no(text: str) -> str:
    """What the last box says: "yes", "no", or nothing. Type style and a full stop do not matter."""
    word = (last_box(text) or "").strip()
    for _ in range(_DRESSES):
        match = _BOX_DRESS.fullmatch(word.rstrip(".!").rstrip())
        word = word if match is None else match[1].strip()
    word = word.rstrip(".!").strip("*_ ").lower()
    return "yes" if word in TRUE_WORDS else "no" if word in FALSE_WORDS else ""


def _question(row: Row) -> _Question:
    if "answerKey" in row:
        return _labelled(row)
    if "choices" in row:
        texts = _texts(row["choices"])
        return _Question(texts, _letter(row, len(texts)))
    return _Question((), _boolean(row))


def _labelled(row: Row) -> _Question:
    """SciKnowEval: the key is one of the choices' labels; prompts letter them from A in their order."""
    choices = column(row, "choices")
    if not isinstance(choices, Mapping):
        raise RowError(f"column 'choices' must hold text and label, not {shorten(choices)}")
    texts = _texts(choices.get("text"))
    labels = choices.get("label")
    if not isinstance(labels, list | tuple) or len(labels) != len(texts):
        raise RowError(f"column 'choices' must have one label for each text, not {shorten(labels)}")
    key = str_column(row, "answerKey").strip()
    if [str(label) for label in labels].count(key) != 1:
        raise UnreadableReferenceError(
            f"column 'answerKey' {shorten(key)} is not one label of {shorten(labels)}"
        )
    return _Question(texts, ascii_uppercase[[str(label) for label in labels].index(key)])


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not 2 <= len(value) <= MOST_CHOICES:
        raise RowError(f"column 'choices' must hold 2 to {MOST_CHOICES} texts, not {shorten(value)}")
    if not all(isinstance(text, str) for text in value):
        raise RowError(f"column 'choices' must hold texts, not {shorten(value)}")
    return tuple(str(text) for text in value)


def _letter(row: Row, choices: int) -> str:
    answer = column(row, "answer")
    if isinstance(answer, bool) or not isinstance(answer, int | str):
        raise RowError(f"column 'answer' must hold an index or a letter, not {shorten(answer)}")
    if isinstance(answer, int):
        if not 0 <= answer < choices:
            raise UnreadableReferenceError(
                f"column 'answer' is {answer}; there are {choices} choices, from 0"
            )
        return ascii_uppercase[answer]
    letter = answer.strip().upper()
    if len(letter) != 1 or letter not in ascii_uppercase[:choices]:
        raise UnreadableReferenceError(f"column 'answer' {shorten(answer)} is no letter of {choices} choices")
    return letter


def _boolean(row: Row) -> str:
    answer = column(row, "answer")
    if isinstance(answer, bool):
        return "yes" if answer else "no"
    if not isinstance(answer, int | str):
        raise RowError(f"column 'answer' must be true or false, not {shorten(answer)}")
    word = str(answer).strip().lower()
    if word in TRUE_WORDS:
        return "yes"
    if word in FALSE_WORDS:
        return "no"
    raise UnreadableReferenceError(f"column 'answer' must be true or false, not {shorten(answer)}")
