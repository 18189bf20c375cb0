"""IFEval: all instructions followed, as the benchmark sees it, offline and the same every time."""

import re
import sys
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dartes.errors import ConfigurationError
from dartes.rewards.pool import GradingPool
from dartes.tasks import ifeval_libraries
from dartes.tasks.base import JSON, RowError, TaskSettings, UnreadableReferenceError
from dartes.tasks.ifeval import IfevalTask, loose_readings
from dartes.tasks.ifeval_libraries import libraries
from dartes.tasks.ifeval_rules import ARGUMENTS, check_of


@cache
def strict() -> IfevalTask:
    """Built once, and not before a test runs: it loads the libraries."""
    return IfevalTask.from_spec(TaskSettings("ifeval"))


@cache
def loose() -> IfevalTask:
    return IfevalTask.from_spec(TaskSettings("ifeval", options={"accept": "Loose"}))


# Every column of the benchmark's argument table, as its files have them: null where it is not used.
NULLS: dict[str, JSON] = {name: None for names in ARGUMENTS.values() for name in names}


def row_of(*instructions: tuple[str, dict[str, JSON]]) -> dict[str, JSON]:
    return {
        "key": 1,
        "prompt": "Write about the sea.",
        "instruction_id_list": [name for name, _ in instructions],
        "kwargs": [{**NULLS, **given} for _, given in instructions],
    }


CASES: list[tuple[str, dict[str, JSON], str, str]] = [
    ("keywords:existence", {"keywords": ["tide", "gull"]}, "A gull and the tide.", "A gull."),
    (
        "keywords:frequency",
        {"keyword": "sea", "frequency": 2, "relation": "at least"},
        "Sea and sea.",
        "One sea.",
    ),
    ("keywords:forbidden_words", {"forbidden_words": ["salt"]}, "Only salty water.", "Much salt."),
    (
        "keywords:letter_frequency",
        {"letter": "z", "let_frequency": 2, "let_relation": "less than"},
        "A zoo.",
        "Zigzag.",
    ),
    (
        "keywords:letter_frequency",
        {"letter": "#", "let_frequency": 2, "let_relation": "at least"},
        "# One\n# Two",
        "# One",
    ),
    (
        "language:response_language",
        {"language": "de"},
        "Das Meer war heute sehr ruhig und der Himmel klar.",
        "The sea was very calm today and the sky was clear.",
    ),
    (
        "length_constraints:number_sentences",
        {"num_sentences": 3, "relation": "less than"},
        "Dr. Low met Mr. High at 3.5 p.m. on the pier. They talked!",
        "One. Two. Three.",
    ),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "One\n***\nTwo", "One\n\nTwo"),
    ("length_constraints:number_words", {"num_words": 3, "relation": "at least"}, "Calm grey sea.", "Sea."),
    (
        "length_constraints:nth_paragraph_first_word",
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "waves"},
        "The sea.\n\nWaves, again.",
        "Waves.\n\nThe sea.",
    ),
    ("detectable_content:number_placeholders", {"num_placeholders": 2}, "[name] at [place]", "[name] [place"),
    (
        "detectable_content:postscript",
        {"postscript_marker": "P.S."},
        "Bye.\nP.S. Write soon.",
        "Bye. PS: soon",
    ),
    ("detectable_format:number_bullet_lists", {"num_bullets": 2}, "* one\n- two", "* one\n* two\n* three"),
    ("detectable_format:constrained_response", {}, "My answer is maybe.", "Maybe."),
    (
        "detectable_format:number_highlighted_sections",
        {"num_highlights": 2},
        "*one* and *two*",
        "*one* and two",
    ),
    (
        "detectable_format:multiple_sections",
        {"section_spliter": "Part", "num_sections": 2},
        "Part 1\nsea\nPart 2\nsky",
        "Part 1\nsea",
    ),
    ("detectable_format:json_format", {}, '```json\n{"sea": ["calm"]}\n```', "sea: calm"),
    ("detectable_format:title", {}, "<<The Sea>>\nIt is calm.", "<< >>\nIt is calm."),
    ("combination:two_responses", {}, "One answer.\n******\nAnother.", "Same.\n******\nSame."),
    ("combination:repeat_prompt", {"prompt_to_repeat": "Tell me."}, "Tell me. Well.", "Well. Tell me."),
    ("startend:end_checker", {"end_phrase": "The end."}, "It was calm. The end.", "The end. Or not."),
    ("startend:quotation", {}, '"A calm sea."', 'A "calm" sea.'),
    (
        "change_case:capital_word_frequency",
        {"capital_frequency": 2, "capital_relation": "at least"},
        "The SEA was VERY calm.",
        "The SEA was calm.",
    ),
    (
        "change_case:english_capital",
        {},
        "THE SEA WAS VERY CALM TODAY AND THE SKY WAS CLEAR.",
        "The sea was calm.",
    ),
    (
        "change_case:english_lowercase",
        {},
        "the sea was very calm today and the sky was clear.",
        "The sea was calm.",
    ),
    ("punctuation:no_comma", {}, "Calm and grey.", "Calm, grey."),
]


@pytest.mark.parametrize(("name", "arguments", "good", "bad"), CASES)
def test_each_instruction_is_followed_by_the_one_and_not_by_the_other(
    name: str, arguments: dict[str, JSON], good: str, bad: str
) -> None:
    row = row_of((name, arguments))
    strict().check_row(row)
    assert strict().grade(row, good).passed
    grade = strict().grade(row, bad)
    assert not grade.passed
    assert grade.reason == f"does not follow {name}"
    assert grade.auxiliary == 0.0


def test_every_instruction_of_the_benchmark_has_a_case() -> None:
    assert {name for name, *_ in CASES} == set(ARGUMENTS) == set(libraries().checkers)


def test_all_instructions_must_be_followed_and_the_auxiliary_score_is_the_share() -> None:
    row = row_of(
        ("punctuation:no_comma", {}),
        ("keywords:existence", {"keywords": ["tide"]}),
        ("detectable_format:title", {}),
    )
    assert strict().grade(row, "<<Tide>> comes in.").passed
    grade = strict().grade(row, "The tide, again.")
    assert not grade.passed
    assert grade.score == 0.0
    assert grade.auxiliary == pytest.approx(1 / 3)
    assert grade.reason == "does not follow punctuation:no_comma, detectable_format:title"


def test_loose_forgives_a_first_line_a_last_line_and_asterisks() -> None:
    row = row_of(("startend:end_checker", {"end_phrase": "The end."}), ("punctuation:no_comma", {}))
    for answer in ("Calm. The end.\nHope this helps!", "Calm. **The end.**"):
        assert not strict().grade(row, answer).passed
        assert loose().grade(row, answer).passed
    assert not loose().grade(row, "Calm, grey. The beginning.\nSea, sky.\n1, 2").passed
    assert loose_readings("a\n*b*\nc") == [
        "a\n*b*\nc",
        "a\nb\nc",
        "*b*\nc",
        "b\nc",
        "a\n*b*",
        "a\nb",
        "*b*",
        "b",
    ]


def test_what_was_thought_is_not_the_answer() -> None:
    row = row_of(("punctuation:no_comma", {}))
    assert strict().grade(row, "<think>one, two</think>Calm.").passed
    assert strict().grade(row, "<think>calm</think> ").reason == "no answer"
    assert strict().grade(row, " \n").reason == "no answer"


def test_an_answer_without_a_letter_is_in_no_language() -> None:
    assert not strict().grade(row_of(("language:response_language", {"language": "en"})), "... 123").passed


def test_the_language_of_a_short_answer_is_always_the_same() -> None:
    row = row_of(("language:response_language", {"language": "en"}))
    grades = {strict().grade(row, "sea no mar la").passed for _ in range(20)}
    assert len(grades) == 1


@pytest.mark.slow
def test_grading_in_the_pool_stays_within_its_limits() -> None:
    rows = [row_of((name, arguments)) for name, arguments, _, _ in CASES]
    everything = row_of(*[(name, arguments) for name, arguments, _, _ in CASES])
    hostile = ["[" * 60_000, "\n" * 60_000, " \n" * 30_000, "<" * 60_000, "p. " * 20_000, '{"a":' * 12_000]
    with GradingPool(TaskSettings("ifeval"), 20.0) as pool:
        before = pool.process_ids
        assert all(grade.passed for grade in pool.grade(rows, [good for _, _, good, _ in CASES]))
        assert not any(grade.passed for grade in pool.grade(rows, [bad for _, _, _, bad in CASES]))
        for answer in hostile:
            assert not pool.grade([everything], [answer])[0].passed
        assert pool.process_ids == before


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"prompt": "a"}, "column 'instruction_id_list' is missing"),
        ({"prompt": "a", "instruction_id_list": "x", "kwargs": []}, "must be a list of names"),
        ({"prompt": "a", "instruction_id_list": [], "kwargs": []}, "must be a list of names"),
        ({"prompt": "a", "instruction_id_list": ["x"], "kwargs": []}, "one mapping for each of the 1 instr"),
        ({"prompt": "a", "instruction_id_list": ["x"], "kwargs": ["y"]}, "must hold mappings"),
        (
            row_of(("punctuation:no_dots", {})),
            "unknown instruction 'punctuation:no_dots' .*punctuation:no_comma",
        ),
        (row_of(("keywords:existence", {"keywords": "sea"})), "to be a list of texts"),
        (row_of(("detectable_format:number_bullet_lists", {"num_bullets": "2"})), "to be a whole number"),
        (row_of(("startend:end_checker", {"end_phrase": 3})), "to be text"),
        (
            row_of(("length_constraints:number_words", {"num_words": 3, "relation": "around"})),
            "'less than' or 'at least', not 'around'",
        ),
    ],
)
def test_a_row_that_is_not_of_the_benchmark_is_refused(row: dict[str, JSON], message: str) -> None:
    with pytest.raises(RowError, match=message) as caught:
        strict().check_row(row)
    assert not isinstance(caught.value, UnreadableReferenceError)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("startend:end_checker", {}, "needs 'end_phrase', which is missing"),
        ("keywords:existence", {"keywords": []}, "which is empty"),
        ("keywords:existence", {"keywords": ["tide", "c("]}, "which is no pattern"),
        ("detectable_format:number_bullet_lists", {"num_bullets": -1}, "0 or more"),
        (
            "length_constraints:nth_paragraph_first_word",
            {"num_paragraphs": 2, "nth_paragraph": 3, "first_word": "a"},
            "from 1 to 2",
        ),
    ],
)
def test_an_instruction_that_chance_would_decide_is_an_unreadable_reference(
    name: str, arguments: dict[str, JSON], message: str
) -> None:
    with pytest.raises(UnreadableReferenceError, match=message):
        strict().check_row(row_of((name, arguments)))


def test_a_missing_library_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "if_verifiable", raising=False)
    monkeypatch.setattr(ifeval_libraries, "find_spec", lambda _: None)
    with pytest.raises(ConfigurationError, match=r"pip install '\.\[tasks\]' in a clone"):
        libraries.__wrapped__()


def test_the_prompt_is_a_chat_of_the_prompt_column() -> None:
    prompt = strict().prompt(row_of(("punctuation:no_comma", {})))
    assert not isinstance(prompt, str)
    assert [(message.role, message.content) for message in prompt] == [("user", "Write about the sea.")]


def test_settings_that_it_does_not_have_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"task.options.accept: must be Strict or Loose, not 'Some'"):
        IfevalTask.from_spec(TaskSettings("ifeval", options={"accept": "Some"}))
    with pytest.raises(ConfigurationError, match="no such option"):
        IfevalTask.from_spec(TaskSettings("ifeval", options={"mode": "Strict"}))


OWN_AND_LIBRARY: list[tuple[str, dict[str, JSON]]] = [
    ("detectable_content:number_placeholders", {"num_placeholders": 2}),
    ("detectable_content:postscript", {"postscript_marker": "P.S."}),
    ("detectable_content:postscript", {"postscript_marker": "P.P.S"}),
    ("detectable_format:number_bullet_lists", {"num_bullets": 1}),
    ("detectable_format:number_bullet_lists", {"num_bullets": 2}),
    ("detectable_format:json_format", {}),
    ("detectable_format:title", {}),
    ("keywords:letter_frequency", {"letter": "p", "let_frequency": 2, "let_relation": "at least"}),
]


@given(st.text(alphabet='[]<>*-pPsS. \n\r\t"{}:1,`jonJ', max_size=40) | st.text(max_size=20))
def test_own_checks_agree_with_the_librarys(answer: str) -> None:
    for name, arguments in OWN_AND_LIBRARY:
        checker = libraries().checkers[name](name)
        checker.build_description(**arguments)
        assert check_of(name, arguments)(answer) == bool(checker.check_following(answer)), name


@given(st.text(alphabet="aB C.\n!,'\"", max_size=40))
def test_capital_words_are_those_between_blanks_and_punctuation(answer: str) -> None:
    arguments: dict[str, JSON] = {"capital_frequency": 1, "capital_relation": "at least"}
    followed = check_of("change_case:capital_word_frequency", arguments)(answer)
    assert followed <= bool(re.search(r"[BC]", answer))
    if re.search(r"(?:^|[ \n])[BC]+(?:$|[ \n])", answer):
        assert followed


@given(st.text())
def test_any_answer_gets_a_grade(answer: str) -> None:
    row = row_of(*[(name, arguments) for name, arguments, _, _ in CASES])
    for task in (strict(), loose()):
        grade = task.grade(row, answer)
        assert 0.0 <= grade.auxiliary <= 1.0
        assert not grade.passed
