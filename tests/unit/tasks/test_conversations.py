"""Chats in the shapes of `datasets` and TRL become messages, and what is no chat is refused by name."""

import pytest

from dartes.tasks.base import JSON, Message, Row, RowError
from dartes.tasks.conversations import (
    MOST_CHARACTERS,
    MOST_TURNS,
    chat_prompt,
    conversation_of,
    reference_turn,
)
from dartes.tasks.templates import Template

ASK: dict[str, JSON] = {"role": "user", "content": "How many legs has a spider?"}
TELL: dict[str, JSON] = {"role": "assistant", "content": "Eight."}
RULE: dict[str, JSON] = {"role": "system", "content": "Answer in one word."}
ASKED = Message("user", "How many legs has a spider?")


def test_a_text_is_one_user_turn() -> None:
    assert conversation_of({"prompt": "How many legs has a spider?"}, "prompt") == (ASKED,)


def test_a_list_of_turns_is_taken_as_it_is() -> None:
    row: Row = {"prompt": [RULE, ASK, TELL, ASK]}
    answered = Message("assistant", "Eight.")
    assert conversation_of(row, "prompt") == (
        Message("system", "Answer in one word."),
        ASKED,
        answered,
        ASKED,
    )


def test_the_last_assistant_turn_is_the_reference_and_not_asked() -> None:
    row: Row = {"messages": [ASK, TELL]}
    assert conversation_of(row, "messages") == (ASKED,)
    assert reference_turn(row) == "Eight."


def test_a_completion_column_is_a_reference_too() -> None:
    assert reference_turn({"prompt": [ASK], "completion": [TELL]}) == "Eight."
    assert reference_turn({"prompt": "x", "completion": "Eight."}) == "Eight."
    assert reference_turn({"prompt": [ASK]}) is None


def test_a_row_without_the_column_has_no_conversation() -> None:
    assert conversation_of({"question": "x"}, "messages") is None
    assert conversation_of({"messages": None}, "messages") is None


def test_the_first_column_that_is_there_is_asked() -> None:
    assert chat_prompt({"question": "a", "messages": [ASK]}, None, None) == (ASKED,)
    assert chat_prompt({"question": "a", "messages": None}, None, None) == (Message("user", "a"),)


def test_the_system_message_of_the_job_comes_first_unless_the_row_has_its_own() -> None:
    assert chat_prompt({"prompt": [ASK]}, None, "Be brief.") == (Message("system", "Be brief."), ASKED)
    own: Row = {"prompt": [RULE, ASK]}
    assert chat_prompt(own, None, "Be brief.") == (Message("system", "Answer in one word."), ASKED)


def test_a_template_of_the_job_is_asked_in_place_of_the_columns() -> None:
    asked = chat_prompt({"question": "Why?", "prompt": "no"}, Template("Say: {question}"), None)
    assert asked == (Message("user", "Say: Why?"),)


def test_a_row_with_nothing_to_ask_names_the_columns_there_are() -> None:
    with pytest.raises(RowError, match=r"column 'prompt' is missing \(there are: answer, text\)"):
        chat_prompt({"answer": 1, "text": "x"}, None, None)
    with pytest.raises(RowError, match="nothing in them"):
        chat_prompt({"prompt": None}, None, None)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (7, "must hold text or a list of turns, not 7"),
        ({"role": "user", "content": "x"}, "must hold text or a list of turns"),
        ([], "has 0 turns"),
        ([ASK] * (MOST_TURNS + 1), "has 257 turns; allowed: 1 to 256"),
        (["hello"], "turn 1: must be an object with 'role' and 'content', not 'hello'"),
        ([{"from": "human", "value": "x"}], r"role is None; allowed: .*\(its keys are: from, value\)"),
        ([{"role": "robot", "content": "x"}], "role is 'robot'; allowed: system, developer, user"),
        ([{"role": ["user"], "content": "x"}], r"role is \['user'\]"),
        ([ASK, {"role": "user", "content": [{"type": "text"}]}], "turn 2: content must be text"),
        ([ASK, RULE], "turn 2: a system turn must be the first"),
        ([RULE], "must end with a user turn"),
        ([TELL], "must end with a user turn"),
        ([ASK, TELL, TELL], "must end with a user turn"),
        ("x" * (MOST_CHARACTERS + 1), "more than 1048576 characters"),
        ([{"role": "user", "content": "x" * (MOST_CHARACTERS + 1)}], "more than 1048576 characters"),
    ],
)
def test_what_is_no_chat_is_refused(value: JSON, said: str) -> None:
    with pytest.raises(RowError, match=f"column 'messages'.*{said}"):
        conversation_of({"messages": value}, "messages")
