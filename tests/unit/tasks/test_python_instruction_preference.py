"""Tasks whose answers are scored elsewhere: their prompts, their settings, and what becomes of a score."""

from typing import Any

import pytest

from dartes.errors import ConfigurationError
from dartes.spec.task import TaskSpec
from dartes.tasks.base import Grade, Message, RewardSource, Row, RowError, SourceFile, TaskSettings
from dartes.tasks.instruction import InstructionTask, ScoringPlace
from dartes.tasks.preference import PreferenceTask
from dartes.tasks.python import PythonFunctionTask
from dartes.tasks.registry import task_named
from dartes.tasks.rules import Fitness, GradingRules, grading_rules

CHAT = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Good day"}]
MODEL = {"rewardModel": "rm"}


def python(**changes: Any) -> PythonFunctionTask:
    return PythonFunctionTask.from_spec(TaskSettings("python", **changes))


def instruction(**changes: Any) -> InstructionTask:
    plain: dict[str, Any] = {"options": MODEL}
    return InstructionTask.from_spec(TaskSettings("instruction", **(plain | changes)))


@pytest.mark.parametrize(
    ("row", "prompt"),
    [
        ({"prompt": "2+3="}, "2+3="),
        ({"question": "2+3?"}, "2+3?"),
        ({"prompt": CHAT}, (Message("user", "Hello"),)),
        ({"messages": CHAT}, (Message("user", "Hello"),)),
    ],
)
def test_to_a_function_a_text_is_raw_and_a_chat_is_a_chat_as_with_trl(row: Row, prompt: object) -> None:
    task = python()
    task.check_row(row)
    assert task.prompt(row) == prompt


def test_a_system_message_or_the_option_makes_a_chat_of_a_text() -> None:
    turn = Message("user", "Hi")
    assert python(system="Be kind.").prompt({"prompt": "Hi"}) == (Message("system", "Be kind."), turn)
    assert python(options={"prompts": "chat"}).prompt({"prompt": "Hi"}) == (turn,)
    assert instruction().prompt({"prompt": "Hi"}) == (turn,)
    assert instruction(options=MODEL | {"prompts": "raw"}).prompt({"prompt": "Hi"}) == "Hi"


def test_a_template_goes_before_every_column() -> None:
    row: Row = {"prompt": "not this", "a": 2, "b": 3}
    assert python(prompt="{a}+{b}=").prompt(row) == "2+3="
    assert instruction(prompt="Add {a} and {b}.").prompt(row) == (Message("user", "Add 2 and 3."),)


@pytest.mark.parametrize(
    "row", [{}, {"text": "Hi"}, {"prompt": 3}, {"prompt": ""}, {"prompt": []}, {"prompt": None}]
)
def test_a_row_without_a_prompt_is_refused(row: Row) -> None:
    with pytest.raises(RowError):
        python().check_row(row)


def test_a_missing_column_of_the_template_is_named() -> None:
    with pytest.raises(RowError, match="column 'b' is missing"):
        python(prompt="{a}+{b}=").check_row({"a": 1})


@pytest.mark.parametrize(
    ("row", "reference"),
    [
        ({"messages": CHAT}, "Good day"),
        ({"prompt": "Hi", "completion": "Hello"}, "Hello"),
        ({"prompt": "Hi", "answer": 5}, "5"),
        ({"prompt": "Hi", "chosen": "better", "rejected": "worse"}, "better"),
        ({"prompt": "Hi"}, ""),
    ],
)
def test_what_a_row_offers_as_an_answer_is_shown(row: Row, reference: str) -> None:
    assert python().reference(row) == reference
    assert instruction().reference(row) == reference


@pytest.mark.parametrize("options", [{"prompts": "Chat"}, {"prompts": 1}])
def test_an_unknown_way_of_prompting_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"task\.options\.prompts = .*must be chat .* or raw"):
        python(options=options)


def test_raw_prompts_have_no_system_message() -> None:
    with pytest.raises(ConfigurationError, match=r"task\.options\.prompts = 'raw': task\.system makes"):
        python(options={"prompts": "raw"}, system="Be kind.")


def test_a_function_passes_from_one_half_on_unless_told_otherwise() -> None:
    assert python().grade_of(0.5) == Grade(True, 0.5, 0.0)
    assert python().grade_of(0.25).reason == "score 0.25 is below task.passThreshold 0.5"
    assert python(pass_threshold=-1.0).grade_of(-1.0).passed


@pytest.mark.parametrize("value", [0, -1, 86_401, "5", True])
def test_a_time_limit_is_a_whole_number_of_seconds(value: object) -> None:
    with pytest.raises(ConfigurationError, match=r"task\.options\.timeoutSeconds = "):
        python(options={"timeoutSeconds": value})
    assert python(options={"timeoutSeconds": 30}).timeout_seconds == 30


def test_what_they_do_not_have_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"task\.options\.rewardModel"):
        python(options=MODEL)
    with pytest.raises(ConfigurationError, match=r"task\.options\.costModel"):
        instruction(options=MODEL | {"costModel": "cm"})
    with pytest.raises(ConfigurationError, match=r"task\.answerFormat"):
        python(answer_format="Tags")


def test_no_answer_is_graded_outside_its_grader() -> None:
    for task in (python(), instruction()):
        with pytest.raises(ConfigurationError, match="open_grader"):
            task.grade({"prompt": "Hi"}, "Hello")


def test_a_reward_model_or_a_service_and_not_both() -> None:
    assert instruction().places == ((ScoringPlace("rewardModel", model="rm"), 1.0),)
    served = instruction(options={"rewardService": "https://r/"})
    assert served.places == ((ScoringPlace("rewardService", service="https://r/"), 1.0),)
    for options, words in (({}, "neither is"), (MODEL | {"rewardService": "http://r/"}, "both are")):
        with pytest.raises(ConfigurationError, match=f"needs exactly one of rewardModel .* {words} given"):
            instruction(options=options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rewardModel": 3}, r"task\.options\.rewardModel = 3: must be a text"),
        ({"rewardModel": " "}, r"task\.options\.rewardModel = ' ': must be a text"),
        ({"rewardService": "rewards:8000"}, r"must begin with http:// or https://"),
        ({"rewardService": "http://r/", "label": "good"}, r"task\.options\.label: a service has no labels"),
    ],
)
def test_settings_that_make_no_sense_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        instruction(options=options)


@pytest.mark.parametrize(("factor", "expected"), [(None, 1.0), (2, 2.0), ("0.5", 0.5), ("0", 0.0), (0, 0.0)])
def test_a_preference_subtracts_lambda_times_the_cost(factor: int | str | None, expected: float) -> None:
    options: dict[str, Any] = MODEL | {"costService": "http://c/", "label": 1}
    if factor is not None:
        options["lambda"] = factor
    task = PreferenceTask.from_spec(TaskSettings("preference", options=options))
    assert task.places == (
        (ScoringPlace("rewardModel", model="rm", label="1"), 1.0),
        (ScoringPlace("costService", service="http://c/"), -expected),
    )


@pytest.mark.parametrize("factor", ["", "-1", -1, "1e3", "nan", "1,5", True, "half"])
def test_a_lambda_that_is_no_plain_number_is_refused(factor: int | str) -> None:
    options: dict[str, Any] = MODEL | {"costModel": "cm", "lambda": factor}
    with pytest.raises(ConfigurationError, match=r"task\.options\.lambda = "):
        PreferenceTask.from_spec(TaskSettings("preference", options=options))


def test_a_preference_needs_a_cost() -> None:
    with pytest.raises(ConfigurationError, match="task 'preference' needs exactly one of costModel"):
        PreferenceTask.from_spec(TaskSettings("preference", options=MODEL))


def test_without_a_threshold_the_parents_score_decides() -> None:
    assert instruction().grade_of(7.0) == Grade(False, 7.0, 0.0)
    assert instruction(pass_threshold=7.0).grade_of(7.0) == Grade(True, 7.0, 0.0)


def test_their_rules_are_scores() -> None:
    function = TaskSpec.model_validate({"kind": "python", "python": {"function": "a:b"}})
    assert grading_rules(function) == GradingRules(Fitness.SCORE, 0.1, against_parent=False)
    for kind in ("instruction", "preference"):
        assert grading_rules(TaskSpec(kind=kind)) == GradingRules(Fitness.SCORE, 0.1, against_parent=True)
        free = TaskSpec.model_validate({"kind": kind, "passThreshold": 0.5})
        assert not grading_rules(free).against_parent


@pytest.mark.parametrize("kind", ["python", "instruction", "preference"])
def test_they_are_found_by_their_names(kind: str) -> None:
    assert task_named(kind).name == kind


def test_a_jobs_function_is_copied_into_plain_settings() -> None:
    spec = TaskSpec.model_validate(
        {"kind": "python", "python": {"configMap": {"name": "mine", "key": "r.py"}}}
    )
    assert TaskSettings.of(spec).python == RewardSource(None, SourceFile("mine", "r.py", "reward"))
    spec = TaskSpec.model_validate({"kind": "python", "python": {"function": "mine:score"}})
    assert TaskSettings.of(spec).python == RewardSource("mine:score")
