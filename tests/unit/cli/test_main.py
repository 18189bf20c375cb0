"""The command line: usage, help, exit codes, and never a traceback for a user's mistake."""

import errno
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from dartes.cli import main as main_module
from dartes.cli.main import EXTRA_OF_MODULE, main
from dartes.errors import ConfigurationError, DrainedError, TransientError

PYPROJECT = Path(__file__).parents[3] / "pyproject.toml"

COMMANDS = ("run", "validate", "status", "journal", "verify", "export", "probe")


def ending(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Let `dartes validate` end so."""

    def fail(_: object) -> int:
        raise error

    monkeypatch.setattr(main_module, "_COMMANDS", {name: fail for name in COMMANDS})  # noqa: C420


@pytest.mark.parametrize("command", COMMANDS)
def test_help_explains_every_argument(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    said = capsys.readouterr().out
    _, description, *parts = said.split("\n\n")
    assert description.endswith((".", "run."))
    entries = [entry for part in parts for entry in re.split(r"\n  (?=\S)", part)[1:]]
    assert len(entries) >= 2, "at least one argument, and --help"
    for entry in entries:
        assert len(re.split(r"\s{2,}", entry.strip(), maxsplit=1)) == 2, f"no explanation: {entry}"


def test_the_first_help_names_every_command_and_every_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    said = capsys.readouterr().out
    for word in (*COMMANDS, "0 done", "64", "75", "76", "1 a bug"):
        assert word in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "required: COMMAND"),
        (["train"], "invalid choice: 'train'"),
        (["run"], "required: JOB"),
        (
            ["run", "x.yaml", "--workers", "two"],
            "'two' is not a whole number; allowed: at least 1",
        ),
        (["run", "x.yaml", "--workers", "0"], "--workers: 0 is out of bounds; allowed: at least 1"),
        (["run", "x.yaml", "--port", "70000"], "--port: 70000 is out of bounds; allowed: 0 to 65535"),
        (["export", "run"], "required: --output"),
        (["export", "run", "--output", "m", "--iteration", "-1"], "-1 is out of bounds; allowed: at least 0"),
        (["export", "run", "--output", "m", "--dtype", "Float8"], "invalid choice: 'Float8'"),
        (["probe", "x.yaml", "--sigmas", "a,b"], "--sigmas: 'a,b': give numbers above 0 and at most 1"),
        (["probe", "x.yaml", "--sigmas", "0"], "give numbers above 0"),
        (["probe", "x.yaml", "--sigmas", "nan"], "give numbers above 0"),
        (["probe", "x.yaml", "--members", "1"], "--members: 1 is out of bounds; allowed: at least 2"),
    ],
)
def test_wrong_usage_exits_64_with_what_is_allowed(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    said = capsys.readouterr().err
    assert caught.value.code == 64
    assert words in said
    assert said.startswith("usage: dartes")


@pytest.mark.parametrize("command", ["status", "journal", "verify"])
def test_a_folder_without_a_run_is_the_users_mistake(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, str(tmp_path)]) == 64
    assert f"error: {tmp_path}: not a run folder (no job.yaml in it)" in capsys.readouterr().err
    assert main([command, str(tmp_path / "none")]) == 64
    assert "there is no such folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (ConfigurationError("field x"), 64, "error: field x"),
        (TransientError("hub away"), 75, "error: hub away"),
        (DrainedError("replaced"), 76, "error: replaced"),
        (KeyboardInterrupt(), 76, "interrupted"),
        (OSError(errno.ENOSPC, "No space left on device", "/x/y"), 75, "the disk is full"),
        (PermissionError(errno.EACCES, "Permission denied", "/x/y"), 64, "error: /x/y: Permission denied"),
        (ModuleNotFoundError("No module named 'rich'", name="rich.bar"), 64, "pip install '.[cli]' in a"),
        (
            ModuleNotFoundError("No module named 'huggingface_hub'", name="huggingface_hub.errors"),
            64,
            "pip install '.[worker]' in a clone",
        ),
    ],
)
def test_errors_become_exit_codes_and_one_line(
    error: BaseException,
    code: int,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ending(monkeypatch, error)
    assert main(["validate", "x.yaml"]) == code
    said = capsys.readouterr().err
    assert words in said
    assert len(said.splitlines()) == 1


def test_what_data_say_cannot_steer_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ending(monkeypatch, ConfigurationError("no column 'a\x1b[2J\u202e'\nthere is: b\r"))
    assert main(["validate", "x.yaml"]) == 64
    assert capsys.readouterr().err == "error: no column 'a\\x1b[2J\\u202e'\nthere is: b\\x0d\n"


def test_what_a_command_prints_of_data_cannot_steer_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("dartes.cli.validate.validate", lambda _: ["warning: \x1b[2J\u202e"])
    assert main(["validate", "x.yaml"]) == 0
    assert capsys.readouterr().out == "warning: \\x1b[2J\\u202e\n"


@pytest.mark.parametrize("module", EXTRA_OF_MODULE)
def test_the_extra_that_is_named_holds_the_module(module: str) -> None:
    extras = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    held = [re.split(r"[^A-Za-z0-9_.-]", wanted)[0] for wanted in extras[EXTRA_OF_MODULE[module]]]
    assert module in held


def test_an_interrupted_run_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ending(monkeypatch, KeyboardInterrupt())
    assert main(["run", "x.yaml"]) == 76
    assert "the same command resumes the run" in capsys.readouterr().err


@pytest.mark.parametrize(
    "error",
    [ValueError("boo"), ModuleNotFoundError("x", name="dartes.nothing"), OSError(errno.EBADF, "Bad file")],
)
def test_a_bug_keeps_its_traceback(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    ending(monkeypatch, error)
    with pytest.raises(type(error)):
        main(["validate", "x.yaml"])


def test_a_reader_that_goes_away_is_no_error(finished_folder: Path) -> None:
    command = [sys.executable, "-m", "dartes.cli.main", "journal", str(finished_folder), "--json"]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from dartes.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'pydantic', 'grpc', 'google.protobuf', 'ruamel'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
