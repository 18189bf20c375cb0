"""A user's own reward function: called in its own process with TRL's arguments, and named where it errs."""

import hashlib
import json
import os
import select
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dartes.errors import ConfigurationError, ExitCode
from dartes.rewards.opening import GraderContext, open_grader
from dartes.rewards.python_function import PythonFunctionGrader, open_python_grader, request_for
from dartes.rewards.python_function_source import reward_digest
from dartes.tasks.base import Message, RewardSource, Row, SourceFile, TaskSettings

pytestmark = pytest.mark.slow

Open = Callable[..., PythonFunctionGrader]

ROWS: list[Row] = [{"question": "2+3", "answer": 5}, {"question": "4+4", "answer": 8, "hard": True}]

SUMS = """
    def reward(prompts, completions, answer, **kwargs):
        return [float(c.strip() == str(a)) for c, a in zip(completions, answer)]
"""


def settings(**changes: Any) -> TaskSettings:
    plain: dict[str, Any] = {
        "kind": "python",
        "prompt": "{question}=",
        "python": RewardSource("reward:reward"),
    }
    return TaskSettings(**(plain | changes))


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Writes reward.py, and opens a grader on it."""
    graders = []

    def open_it(source: str, **changes: Any) -> PythonFunctionGrader:
        (tmp_path / "reward.py").write_text(textwrap.dedent(source), encoding="utf-8")
        graders.append(open_python_grader(settings(**changes), GraderContext(tmp_path)))
        return graders[-1]

    yield open_it
    for grader in graders:
        grader.close()


def refused(opened: Open, source: str, **changes: Any) -> str:
    """What the job ends with; nothing else may happen."""
    with pytest.raises(ConfigurationError) as caught:
        opened(source, **changes).grade(ROWS, ["5", "no"])
    assert caught.value.exit_code is ExitCode.CONFIGURATION
    return str(caught.value)


def test_a_function_scores_a_whole_batch(opened: Open) -> None:
    grades = opened(SUMS).grade(ROWS, ["5", "9"])
    assert [(g.passed, g.score, g.auxiliary) for g in grades] == [(True, 1.0, 0.0), (False, 0.0, 0.0)]
    assert grades[1].reason == "score 0 is below task.passThreshold 0.5"


def test_the_pass_threshold_is_the_users(opened: Open) -> None:
    source = "def reward(completions):\n    return [len(c) for c in completions]\n"
    grades = opened(source, pass_threshold=3.0).grade(ROWS, ["ab", "abc"])
    assert [(g.passed, g.score) for g in grades] == [(False, 2.0), (True, 3.0)]


def test_an_asynchronous_function_is_awaited(opened: Open) -> None:
    source = """
        import asyncio

        async def score(text):
            await asyncio.sleep(0)
            return float(len(text))

        async def reward(prompts, completions, **columns):
            return await asyncio.gather(*(score(c) for c in completions))
    """
    assert [g.score for g in opened(source).grade(ROWS, ["a", "bb"])] == [1.0, 2.0]


def test_the_entry_point_leads_to_it(opened: Open, tmp_path: Path) -> None:
    opened(SUMS)
    grader = open_grader(settings(), GraderContext(tmp_path))
    try:
        assert [g.passed for g in grader.grade(ROWS, ["5", "8"])] == [True, True]
        assert grader.grade([], []) == []
    finally:
        grader.close()


def test_arguments_have_the_shapes_of_trl() -> None:
    chat = (Message("system", "Be brief."), Message("user", "2+3?"))
    made = request_for(["4+4=", chat], ROWS, ["8", "5"])
    assert made == {
        "prompts": [
            "4+4=",
            [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2+3?"}],
        ],
        "completions": ["8", [{"role": "assistant", "content": "5"}]],
        "columns": {"question": ["2+3", "4+4"], "answer": [5, 8], "hard": [None, True]},
    }


def test_columns_named_as_the_functions_own_arguments_are_not_passed() -> None:
    row: Row = {"prompt": "p", "completion": "c", "completion_ids": [1], "completions": [], "kept": 1}
    assert request_for(["p"], [row], ["x"])["columns"] == {"kept": [1]}


def test_a_function_is_given_only_what_it_names_unless_it_takes_all(opened: Open) -> None:
    few = "def reward(completions, hard):\n    return [1.0 if h else 0.0 for h in hard]\n"
    assert [g.score for g in opened(few).grade(ROWS, ["", ""])] == [0.0, 1.0]
    everything = """
        def reward(completions, **kwargs):
            columns = [name for name in kwargs if not name.startswith("log_")]
            assert sorted(columns) == ["answer", "hard", "prompts", "question"], columns
            kwargs["log_extra"]("length", [1, 2])
            kwargs["log_metric"]("mean", 0.5)
            return [0] * len(completions)
    """
    assert [g.score for g in opened(everything).grade(ROWS, ["", ""])] == [0.0, 0.0]


def test_what_only_trls_trainer_has_may_have_a_default(opened: Open) -> None:
    source = """
        def reward(completions, trainer_state=None, completion_ids=None):
            assert trainer_state is None and completion_ids is None
            return [1.0] * len(completions)
    """
    assert [g.score for g in opened(source).grade(ROWS, ["", ""])] == [1.0, 1.0]
    text = refused(opened, "def reward(completions, trainer_state):\n    return []\n")
    assert "'trainer_state', which only TRL's trainer has" in text
    assert "trainer_state=None" in text


def test_text_of_any_kind_arrives_as_it_is(opened: Open) -> None:
    source = """
        def reward(completions):
            return [float(c == "\\ud800 \\x00 \\u20ac" + "x" * 200_000) for c in completions]
    """
    grades = opened(source).grade(ROWS, ["\ud800 \x00 €" + "x" * 200_000, "other"])
    assert [g.score for g in grades] == [1.0, 0.0]


def test_prints_go_to_the_log_and_not_into_the_protocol(
    opened: Open, capfd: pytest.CaptureFixture[str]
) -> None:
    source = """
        import os

        print("while importing")

        def reward(completions):
            print("while scoring", completions)
            os.write(1, b"past all of Python's files")
            input_is_empty = open(0).read() == ""
            return [float(input_is_empty)] * len(completions)
    """
    assert [g.score for g in opened(source).grade(ROWS, ["a", "b"])] == [1.0, 1.0]
    said = capfd.readouterr()
    assert said.out == ""
    assert "while importing" in said.err
    assert "while scoring ['a', 'b']" in said.err
    assert "past all of Python's files" in said.err


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            "return None",
            "returned None; it must return a list with one number per answer; is a 'return' missing?",
        ),
        ("return 0.5", "returned 0.5; it must return a list with one number per answer"),
        ("return 'good'", "returned 'good'; it must return a list"),
        ("return {1: 2}", "returned {1: 2}; it must return a list"),
        ("return [1.0]", "returned 1 scores for 2 answers; it must return one number per answer"),
        ("return [1.0, None]", "returned None as the score of answer 2; give 0.0"),
        ("return [1.0, 'x']", "returned 'x' as the score of answer 2; a score must be a number"),
        ("return [[1.0], 0]", "returned [1.0] as the score of answer 1; a score must be a number"),
        (
            "return [float('nan'), 0]",
            "returned nan as the score of answer 1; a score must be a finite number",
        ),
        (
            "return [0, float('-inf')]",
            "returned -inf as the score of answer 2; a score must be a finite number",
        ),
        ("return [0, 1e300]", "returned 1e+300 as the score of answer 2; a score must be a finite number"),
        ("return [0, 10**400]", "as the score of answer 2; a score must be one number"),
        ("raise SystemExit(3)", "raised SystemExit: 3"),
    ],
)
def test_what_is_no_list_of_scores_is_refused(opened: Open, body: str, expected: str) -> None:
    text = refused(opened, f"def reward(prompts, completions, **kwargs):\n    {body}\n")
    assert text.startswith("task.python: reward:reward ")
    assert expected in text


def test_numbers_of_every_kind_are_scores(opened: Open) -> None:
    source = """
        import fractions
        import numpy

        def reward(completions, answer):
            if completions[0] == "array":
                return numpy.array([0.5, 2], numpy.float32)
            return (True, fractions.Fraction(1, 4))
    """
    grader = opened(source)
    assert [g.score for g in grader.grade(ROWS, ["array", ""])] == [0.5, 2.0]
    assert [g.score for g in grader.grade(ROWS, ["", ""])] == [1.0, 0.25]


def test_a_function_that_raises_is_named_with_file_line_and_text(
    opened: Open, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = """
        import json

        def reward(completions, **kwargs):
            return [json.loads(c)["score"] for c in completions]
    """
    text = refused(opened, source)
    assert "task.python: reward:reward raised TypeError: 'int' object is not subscriptable" in text
    assert f"({tmp_path / 'reward.py'}, line 5, in <listcomp>: return [json.loads(c)" in text.replace(
        "in reward:",
        "in <listcomp>:",  # newer Pythons have no frame of its own for it
    )
    assert "Traceback" in capfd.readouterr().err


def test_an_error_inside_a_library_is_shown_at_the_users_line(opened: Open) -> None:
    text = refused(
        opened, "import json\ndef reward(completions):\n    return [json.loads(c) for c in ['{']]\n"
    )
    assert "JSONDecodeError" in text
    assert "reward.py, line 3" in text


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def reward(:\n", "can't be imported: SyntaxError: invalid syntax"),
        ("import a_package_that_is_nowhere\n", "can't be imported: ModuleNotFoundError: No module named"),
        ("def other():\n    pass\n", "has no function 'reward' (it has: other)"),
        ("reward = 3\n", "is no function but 3"),
        ("raise SystemExit\n", "can't be imported: SystemExit"),
    ],
)
def test_what_can_not_be_loaded_is_said_at_once(opened: Open, source: str, expected: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        opened(source)
    assert str(caught.value).startswith("task.python: reward:reward ")
    assert expected in str(caught.value)


def test_a_missing_column_is_named_with_those_there_are(opened: Open) -> None:
    text = refused(opened, "def reward(completions, solution):\n    return []\n")
    assert "asks for 'solution', and the problems have no such column" in text
    assert "(offered are: answer, completions, hard, prompts, question)" in text
    assert "dataset.columns: {solution: ...}" in text


def test_a_function_that_hangs_is_killed_tried_once_more_and_then_named(opened: Open, tmp_path: Path) -> None:
    source = f"""
        import time

        def reward(completions):
            with open({str(tmp_path / "calls")!r}, "a") as out:
                out.write("x")
            time.sleep(600)
    """
    text = refused(opened, source, options={"timeoutSeconds": 1})
    assert "reward:reward was at a batch for more than 1 s, and was ended, 2 times in a row" in text
    assert "raise task.options.timeoutSeconds" in text
    assert "; it is lost in the answer '5' alone, of 1 characters, to '2+3='; make it finish" in text
    assert (tmp_path / "calls").read_text() == "xxx"


def test_the_one_answer_that_a_function_is_lost_in_is_shown(opened: Open) -> None:
    source = """
        import os

        def reward(completions):
            if any("(" in c for c in completions):
                os._exit(9)
            return [1.0] * len(completions)
    """
    with pytest.raises(ConfigurationError) as caught:
        opened(source).grade(ROWS, ["5", "\x1b\u202e" + "(" * 100])
    shown = "'\\x1b\\u202e" + "(" * 58 + "'"
    assert f"it is lost in the answer {shown} alone, of 102 characters, to '4+4='" in str(caught.value)


def test_what_is_called_is_what_was_digested(opened: Open, tmp_path: Path) -> None:
    source = """
        import os

        def reward(completions):
            if "die" in completions:
                os._exit(9)
            return [1.0] * len(completions)
    """
    grader = opened(source)
    (tmp_path / "reward.py").write_text("def reward(completions): return [-7.0] * len(completions)\n")
    assert [grade.score for grade in grader.grade(ROWS, ["5", "no"])] == [1.0, 1.0], "it is still loaded"
    with pytest.raises(ConfigurationError, match=r"reward\.py has changed since this run's workers began"):
        grader.grade(ROWS, ["die", "no"])


def test_no_answer_is_blamed_where_each_is_fine_alone(opened: Open) -> None:
    source = """
        import os

        def reward(completions):
            if len(completions) > 1:
                os._exit(9)
            return [1.0]
    """
    text = refused(opened, source)
    assert "ended its process (exit code 9), 2 times in a row; make it finish, or raise" in text


def test_a_function_that_takes_its_process_along_once_costs_nothing(opened: Open, tmp_path: Path) -> None:
    source = f"""
        import os
        import signal
        from pathlib import Path

        def reward(completions):
            mark = Path({str(tmp_path / "died")!r})
            if not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGSEGV)
            return [1.0] * len(completions)
    """
    assert [g.score for g in opened(source).grade(ROWS, ["", ""])] == [1.0, 1.0]


def test_a_function_that_always_takes_its_process_along_is_named(opened: Open) -> None:
    text = refused(opened, "import os\ndef reward(completions):\n    os._exit(9)\n")
    assert "reward:reward ended its process (exit code 9), 2 times in a row" in text


def test_closing_ends_the_process_even_in_the_middle_of_nothing(opened: Open) -> None:
    grader = opened("import os\ndef reward(completions):\n    return [os.getpid()] * len(completions)\n")
    process = int(grader.grade(ROWS, ["", ""])[0].score)
    grader.close()
    grader.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_the_function_does_not_outlive_a_worker_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "reward.py").write_text(
        "import os, time\n"
        "def reward(completions):\n"
        "    os.write(2, f'{os.getpid()}\\n'.encode())\n"
        "    time.sleep(600)\n",
        encoding="utf-8",
    )
    worker = (
        "from pathlib import Path\n"
        "from dartes.rewards.opening import GraderContext\n"
        "from dartes.rewards.python_function import open_python_grader\n"
        "from dartes.tasks.base import RewardSource, TaskSettings\n"
        "task = TaskSettings('python', prompt='p', python=RewardSource('reward:reward'))\n"
        "open_python_grader(task, GraderContext(Path())).grade([{}], ['a'])\n"
    )
    with subprocess.Popen([sys.executable, "-c", worker], cwd=tmp_path, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        function = os.pidfd_open(int(process.stderr.readline()))
        process.kill()
        assert select.select([function], [], [], 30.0)[0], "the function's process goes on"
        os.close(function)


def test_the_working_folder_is_that_of_the_job_file(opened: Open, tmp_path: Path) -> None:
    (tmp_path / "words.json").write_text(json.dumps(["good"]), encoding="utf-8")
    source = """
        import json

        WORDS = json.load(open("words.json"))

        def reward(completions):
            return [float(c in WORDS) for c in completions]
    """
    assert [g.score for g in opened(source).grade(ROWS, ["good", "bad"])] == [1.0, 0.0]


def test_a_module_in_a_package_beside_the_job_file_is_found(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").touch()
    (tmp_path / "mine" / "rewards.py").write_text(textwrap.dedent(SUMS), encoding="utf-8")
    task = settings(python=RewardSource("mine.rewards:reward"))
    grader = open_python_grader(task, GraderContext(tmp_path))
    try:
        assert [g.passed for g in grader.grade(ROWS, ["5", "8"])] == [True, True]
    finally:
        grader.close()


@pytest.mark.parametrize("place", ["beside the job file", "mounted"])
def test_a_config_maps_file_is_read_beside_the_job_file_or_where_it_is_mounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    folder = tmp_path
    if place == "mounted":
        monkeypatch.setenv("DARTES_REWARDS", str(tmp_path / "mounts"))
        folder = tmp_path / "mounts" / "my-reward"
        folder.mkdir(parents=True)
    source = textwrap.dedent(SUMS).replace("def reward", "def sums")
    (folder / "score.py").write_text(source, encoding="utf-8")
    task = settings(python=RewardSource(config_map=SourceFile("my-reward", "score.py", "sums")))
    grader = open_python_grader(task, GraderContext(tmp_path))
    try:
        assert [g.passed for g in grader.grade(ROWS, ["5", "8"])] == [True, True]
    finally:
        grader.close()
    assert reward_digest(task, tmp_path) == hashlib.sha256(source.encode()).hexdigest()


def test_a_missing_file_of_a_config_map_says_where_it_was_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = settings(python=RewardSource(config_map=SourceFile("my-reward")))
    with pytest.raises(
        ConfigurationError, match=f"no file {tmp_path}/reward.py; put the file reward.py there"
    ):
        open_python_grader(task, GraderContext(tmp_path))
    monkeypatch.setenv("DARTES_POD", "worker-0")
    with pytest.raises(
        ConfigurationError, match=r"no file /etc/dartes/reward/my-reward/reward\.py; does the"
    ):
        open_python_grader(task, GraderContext(tmp_path))


@pytest.mark.parametrize("key", ["../reward.py", "/etc/passwd", "a/b.py"])
def test_a_key_is_a_file_name(tmp_path: Path, key: str) -> None:
    task = settings(python=RewardSource(config_map=SourceFile("my-reward", key)))
    with pytest.raises(ConfigurationError, match="must be a file name without a path"):
        reward_digest(task, tmp_path)


@pytest.mark.parametrize("function", ["nowhere:reward", "json.nowhere:reward", "folder:reward"])
def test_a_module_that_is_not_there_is_refused_without_running_anything(
    tmp_path: Path, function: str
) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConfigurationError, match=r"task\.python\.function = '"):
        reward_digest(settings(python=RewardSource(function)), tmp_path)


def test_a_file_that_python_does_not_import_is_not_mistaken_for_one_it_does(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("def reward(completions):\n    return [0.0]\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="give the file another name"):
        open_python_grader(settings(python=RewardSource("json:reward")), GraderContext(tmp_path))


def test_the_digest_is_that_of_the_file_and_only_this_task_has_one(tmp_path: Path) -> None:
    (tmp_path / "reward.py").write_text("raise RuntimeError('not to be run')\n", encoding="utf-8")
    expected = hashlib.sha256((tmp_path / "reward.py").read_bytes()).hexdigest()
    assert reward_digest(settings(), tmp_path) == expected
    assert reward_digest(TaskSettings("gsm8k"), tmp_path) is None
