"""GSM8K: the word after the last mark is the answer; the format score reads the opened tag and the answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dartes.errors import ConfigurationError
from dartes.tasks.base import RowError, TaskSettings, UnreadableReferenceError
from dartes.tasks.gsm8k import Gsm8kTask

TASK = Gsm8kTask.from_spec(TaskSettings("gsm8k"))
LENIENT = Gsm8kTask.from_spec(TaskSettings("gsm8k", options={"accept": "Lenient"}))
ROW = {"question": "How many?", "answer": "40 + 32 = 72\n#### 1,072"}


def test_the_prompt_is_raw_and_ends_with_an_opened_think_tag() -> None:
    prompt = TASK.prompt(ROW)
    assert isinstance(prompt, str)
    assert "How many?" in prompt
    assert prompt.endswith("<think>")


@pytest.mark.parametrize(
    ("completion", "passed"),
    [
        ("#### 1072", True),
        ("####1072", True),
        ("#### 1,072", True),
        ("#### 1072.0000009", True),
        ("#### 1072.000001", False),
        ("#### 5 no #### 1072 apples", True),
        ("#### 1072 #### 5", False),
        ("#### 1072 ####", False),
        ("1072", False),
        ("#### $1072", False),
        ("#### 1072.", True),
        ("#### inf", False),
        ("#### nan", False),
        ("#### 1e999", False),
        ("#### \uff11\uff10\uff17\uff12", False),
        ("#### " + "9" * 10**6, False),
        ("####", False),
        ("", False),
        ("\ud800####\udfff 1072", False),
    ],
)
def test_an_answer_passes_by_the_first_word_after_the_last_mark(completion: str, passed: bool) -> None:
    grade = TASK.grade(ROW, completion)
    assert grade.passed is passed
    assert grade.score == float(passed)
    assert bool(grade.reason) is not passed


DRESSED = [
    "#### $1,072.",
    "#### $1072",
    "#### \\$1072",
    "#### **1072**",
    "#### \\boxed{1072}",
    "#### $\\boxed{1072}$.",
    "#### 1072%",
    "#### 1072</answer>",
    "#### (1072)",
]


@pytest.mark.parametrize("completion", DRESSED)
def test_a_dressed_number_passes_only_where_the_job_says_lenient(completion: str) -> None:
    assert not TASK.grade(ROW, completion).passed
    assert LENIENT.grade(ROW, completion).passed
    assert not LENIENT.grade(ROW, completion.replace("72", "73")).passed
    assert not LENIENT.grade({"question": "?", "answer": "-1072"}, completion).passed


@pytest.mark.parametrize(
    "completion",
    [
        "#### not 1072",
        "#### 1072or5",
        "#### 1072/2",
        "#### --1072",
        "#### -$-1072",
        "#### 1072x",
        "#### $",
        "####",
        "#### 1072**2",
        "#### " + "1" * 10**6,
        "#### x1072",
        "#### 1072<b>5",
        "#### 1072 ####",
    ],
)
def test_lenient_does_not_pass_what_is_more_than_a_dressed_number(completion: str) -> None:
    assert not LENIENT.grade(ROW, completion).passed


def test_lenient_reads_a_sign_and_refuses_other_words_for_the_option() -> None:
    assert LENIENT.grade({"question": "?", "answer": "-5"}, "#### -$5.00").passed
    assert LENIENT.grade({"question": "?", "answer": "0.5"}, "#### $.5").passed
    with pytest.raises(ConfigurationError, match="task.options.accept: must be one of Published, Lenient"):
        Gsm8kTask.from_spec(TaskSettings("gsm8k", options={"accept": "Any"}))


@given(st.text(alphabet="0123456789,.$*%-+/ <>", max_size=10))
def test_lenient_adds_only_texts_whose_one_number_is_right(word: str) -> None:
    if LENIENT.grade({"question": "", "answer": "5"}, f"#### {word}").passed:
        digits = "".join(letter for letter in word.split()[0] if letter in "0123456789.").rstrip(".")
        assert abs(float(digits) - 5) < 1e-6


@pytest.mark.parametrize(
    ("completion", "score"),
    [
        ("hm</think>\n#### 5", 1.0),
        ("hm</think> so it is #### -5.", 1.0),
        ("hm</think> no number", 0.1),
        ("hm #### 5</think> no number behind", 0.6),
        ("hm #### 5", 0.5),
        ("hm #### five", 0.0),
        ("####\n\n5</think>", 0.6),
        ("", 0.0),
        ("<think></think>#### .5", 1.0),
    ],
)
def test_the_format_score_counts_the_tag_that_the_prompt_opened(completion: str, score: float) -> None:
    assert TASK.grade(ROW, completion).auxiliary == pytest.approx(score)


def test_a_prompt_without_the_open_tag_leaves_the_opening_to_the_answer() -> None:
    for task in (
        Gsm8kTask.from_spec(TaskSettings("gsm8k", prompt="{question}")),
        Gsm8kTask.from_spec(TaskSettings("gsm8k", system="Think first.")),
    ):
        assert task.grade(ROW, "hm</think>#### 5").auxiliary == 0.5
        assert task.grade(ROW, "<think>hm</think>#### 5").auxiliary == 1.0
    chat = Gsm8kTask.from_spec(TaskSettings("gsm8k", system="Think first.")).prompt(ROW)
    assert [message.role for message in chat if not isinstance(message, str)] == ["system", "user"]


@pytest.mark.parametrize("answer", ["", "no number", "#### ten", "#### 1 2", "1e999"])
def test_a_reference_that_cannot_be_read_is_told_from_a_wrong_layout(answer: str) -> None:
    with pytest.raises(
        UnreadableReferenceError, match="column 'answer' must be a number or end with '#### number'"
    ):
        TASK.check_row({"question": "q", "answer": answer})


def test_a_row_needs_question_and_answer() -> None:
    with pytest.raises(RowError, match=r"column 'question' is missing \(there are: answer, q\)"):
        TASK.check_row({"q": "?", "answer": "5"})
    with pytest.raises(RowError, match="column 'answer' must hold text, not 5"):
        TASK.check_row({"question": "?", "answer": 5})
    TASK.check_row({"question": "?", "answer": "5"})


def test_reference_and_answer_are_numbers_that_can_be_compared() -> None:
    assert TASK.reference(ROW) == "1,072"
    assert TASK.reference({"question": "?", "answer": "5"}) == "5"
    assert TASK.grade(ROW, "#### 1,072").answer == TASK.grade(ROW, "#### 1072.0").answer == "1072"
    assert TASK.grade(ROW, "#### 7.5").answer == "15/2"
    assert TASK.grade(ROW, "1072").answer == ""


@given(st.lists(st.sampled_from(["####", "#", " ", "\n", "5", "7", ",", ".", "x", "</think>", "<think>"])))
def test_grades_agree_with_a_slow_reader(parts: list[str]) -> None:
    completion = "".join(parts)
    marks = [at for at in range(len(completion)) if completion[at : at + 4] == "####"]
    words = completion[marks[-1] + 4 :].split() if marks else []
    try:
        value = float(words[0].replace(",", "")) if words else None
    except ValueError:
        value = None
    grade = TASK.grade({"question": "", "answer": "5"}, completion)
    assert grade.passed == (value is not None and abs(value - 5) < 1e-6)
    assert grade.auxiliary == pytest.approx(_slow_format("<think>" + completion))


def _slow_format(text: str) -> float:
    def number_from(start: int) -> bool:
        for position in range(start, len(text)):
            if text.startswith("####", position):
                rest = text[position + 4 :].lstrip()
                if rest[:1].isdigit() or (rest[:1] == "." and rest[1:2].isdigit()):
                    return True
        return False

    opened = text.find("<think>")
    closed = next((i for i in range(opened + 7, len(text)) if text.startswith("</think>", i)), None)
    if closed is not None and number_from(closed + 8):
        return 1.0
    return (0.1 if closed is not None else 0.0) + (0.5 if number_from(0) else 0.0)
