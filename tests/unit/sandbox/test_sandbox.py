"""What a sandbox promises its user: results, order, limits, the machine's errors."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from dartes.errors import ConfigurationError
from dartes.sandbox import process, seccomp
from dartes.sandbox.levels import Levels, Namespaces, describe
from dartes.sandbox.process import Means, ZygoteLostError, ZygoteProcess
from dartes.sandbox.runs import CheckedRun, Ending, Limits, RunResult, SandboxStartError, ScriptRun
from dartes.sandbox.sandbox import Sandbox

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def plain_sandbox() -> Iterator[Sandbox]:
    with Sandbox(2) as made:
        yield made


def test_a_script_gets_its_input_and_gives_its_output_and_status(plain_sandbox: Sandbox) -> None:
    program = "import sys\nprint(sys.stdin.read().upper(), input if 0 else '', __name__)\nsys.exit(3)"
    result = plain_sandbox.run(ScriptRun(program, "abc é"))
    assert (result.ending, result.code, result.stdout) == (Ending.DONE, 3, "ABC É  __main__\n")


def test_a_script_runs_to_the_end_that_an_interpreter_gives_it(plain_sandbox: Sandbox) -> None:
    program = """
import atexit, sys, threading
atexit.register(lambda: print("at exit"))
sys.setrecursionlimit(10**6)
threading.stack_size(2**26)
threading.Thread(target=lambda: print("thread", input())).start()
"""
    assert plain_sandbox.run(ScriptRun(program, "5\n")).stdout == "thread 5\nat exit\n"


def test_an_uncaught_exception_is_status_one_with_its_traceback(plain_sandbox: Sandbox) -> None:
    result = plain_sandbox.run(ScriptRun("1 / 0"))
    assert result.code == 1
    assert result.stderr.endswith("ZeroDivisionError: division by zero\n")


def test_large_inputs_and_outputs_pass(plain_sandbox: Sandbox) -> None:
    text = "x" * 5_000_000
    result = plain_sandbox.run(
        ScriptRun("import sys\nsys.stdout.write(sys.stdin.read())", text, Limits(output_bytes=6_000_000))
    )
    assert (len(result.stdout), result.cut) == (len(text), False)


def test_runs_know_nothing_of_those_before(plain_sandbox: Sandbox) -> None:
    program = "import builtins, os\nprint(getattr(builtins, 'mark', 0), os.listdir('.'))\n"
    program += "builtins.mark = 1\nopen('f', 'w')"
    "builtins.mark = 1\nopen('f', 'w')"
    assert {plain_sandbox.run(ScriptRun(program)).stdout for _ in range(4)} == {"0 []\n"}


def test_runs_repeat_themselves(plain_sandbox: Sandbox) -> None:
    program = "import random\nprint(random.random(), {str(i) for i in range(50)})"
    assert len({plain_sandbox.run(ScriptRun(program)).stdout for _ in range(4)}) == 1


def test_results_of_many_runs_come_in_order(plain_sandbox: Sandbox) -> None:
    numbers = list(range(30))
    found = plain_sandbox.each(numbers, lambda n, run: run(ScriptRun(f"print({n})")).stdout)
    assert found == [f"{n}\n" for n in numbers]


@pytest.mark.parametrize(
    "value",
    [
        "[1, 2.5, None, True, 'x', b'y', (1, 2), {1: {2}}, frozenset({3}), 1j, 10**4000, range(3)]",
        "[float('inf'), -0.0, __import__('fractions').Fraction(1, 3), __import__('decimal').Decimal('1.10')]",
        "[__import__('datetime').date(2020, 1, 2), __import__('collections').deque([1])]",
        "''.join(map(chr, range(300))) + '\\ud800'",
    ],
)
def test_a_value_comes_from_the_program_as_it_was(plain_sandbox: Sandbox, value: str) -> None:
    test = f"with __site__(0):\n    v = f(f({value}))\n    assert v == {value}\n"
    "    assert repr(v) == repr({value})"
    result = plain_sandbox.run(CheckedRun(("def f(x): return x",), test, 1, names={"f": "f"}))
    assert result.passed == (True,), result.reason


def test_an_object_of_the_program_can_be_given_back_and_equals_itself_alone(plain_sandbox: Sandbox) -> None:
    program = "class P:\n  def __init__(s, v): s.v = v\n  def __eq__(s, o): return True\ndef f(p): return p.v"
    test = "with __site__(0):\n    assert f(P(3)) == 3\nwith __site__(1):\n    assert P(3) == 3"
    result = plain_sandbox.run(CheckedRun((program,), test, 2, names={"f": "f", "P": "P"}))
    assert result.passed == (True, False)


def test_exceptions_of_the_program_reach_its_test(plain_sandbox: Sandbox) -> None:
    test = (
        "with __site__(0):\n    try:\n        f(1)\n        assert False\n    except KeyError:\n        pass"
    )
    result = plain_sandbox.run(CheckedRun(("def f(x): raise KeyError(x)",), test, 1, names={"f": "f"}))
    assert result.passed == (True,)


def test_a_zygote_that_is_killed_costs_no_run(plain_sandbox: Sandbox) -> None:
    for process_id in plain_sandbox.process_ids:
        os.killpg(process_id, signal.SIGKILL)
    assert plain_sandbox.run(ScriptRun("print(1)")).stdout == "1\n"


def test_a_run_that_loses_two_zygotes_fails_and_the_next_goes_on(
    plain_sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = iter([True, True, False])
    real = ZygoteProcess.run

    def losing(zygote: ZygoteProcess, run: ScriptRun | CheckedRun) -> RunResult:
        if next(lost):
            zygote.kill()
        return real(zygote, run)

    monkeypatch.setattr(ZygoteProcess, "run", losing)
    result = plain_sandbox.run(ScriptRun("print(1)"))
    assert (result.ending, result.reason) == (Ending.KILLED, "the sandbox died (signal SIGKILL)")
    assert plain_sandbox.run(ScriptRun("print(1)")).stdout == "1\n"


def test_a_zygote_that_does_not_answer_is_given_up_when_its_time_is_over() -> None:
    now = [0.0]
    zygote = ZygoteProcess(Means(), lambda: now[0])
    try:
        zygote.wait_until_ready()
        family = psutil.Process(zygote.process_id)
        for stopped in (*family.children(), family):
            stopped.suspend()

        def jump() -> float:
            now[0] += 500.0
            return now[0]

        zygote._clock = jump
        with pytest.raises(ZygoteLostError, match="does not answer"):
            zygote.run(ScriptRun("print(1)", limits=Limits(1)))
    finally:
        zygote.close()


def test_a_sandbox_that_cannot_start_is_the_machines_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_START", "raise SystemExit('no interpreter today')")
    with (
        Sandbox() as sandbox,
        pytest.raises(SandboxStartError, match=r"does not start.*no interpreter today"),
    ):
        sandbox.run(ScriptRun("print(1)"))


def test_a_program_that_never_began_is_the_machines_trouble_not_a_wrong_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = "import dartes.sandbox.seccomp as s\ndef install(wanted): raise OSError('no filter left')\n"
    broken += "s.install = install\n"
    start = "import sys; sys.path.insert(0, sys.argv[1])\n" + broken
    monkeypatch.setattr(process, "_START", start + "from dartes.sandbox.zygote import main; main()")
    with Sandbox() as sandbox, pytest.raises(SandboxStartError, match="no filter left"):
        sandbox.run(ScriptRun("print(1)"))


def test_a_machine_without_filters_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "import sys, dartes.sandbox.seccomp as s; s.available = lambda: False; "
    monkeypatch.setattr(process, "_START", process._START.replace("from dartes", said + "from dartes", 1))
    with Sandbox() as sandbox, pytest.raises(ConfigurationError, match="seccomp"):
        sandbox.describe()


def test_closing_leaves_no_process_and_no_folder(tmp_path: Path) -> None:
    sandbox = Sandbox(2, folder=str(tmp_path))
    sandbox.describe()
    family = [
        p
        for parent in sandbox.process_ids
        for p in (parent, *(c.pid for c in psutil.Process(parent).children()))
    ]
    sandbox.close()
    sandbox.close()
    psutil.wait_procs([psutil.Process(p) for p in family if psutil.pid_exists(p)], timeout=10)
    assert not any(psutil.pid_exists(p) for p in family)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("namespaces", [True, False])
def test_nothing_outlives_a_worker_that_is_killed(tmp_path: Path, namespaces: bool) -> None:
    code = """
import sys
from dartes.sandbox.process import Means
from dartes.sandbox.runs import ScriptRun
from dartes.sandbox.sandbox import Sandbox
sandbox = Sandbox(folder=sys.argv[1], means=Means(namespaces=bool(sys.argv[2])))
sandbox.describe()
print(sandbox.process_ids[0], flush=True)
sandbox.run(ScriptRun("import time; time.sleep(600)"))
"""
    command = [sys.executable, "-c", code, str(tmp_path), "yes" if namespaces else ""]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    zygote = psutil.Process(int(worker.stdout.readline()))
    family = [zygote, *zygote.children(recursive=True)]
    worker.kill()
    worker.wait()
    worker.stdout.close()
    assert psutil.wait_procs(family, timeout=20)[1] == []


def test_a_sandbox_removes_what_killed_ones_left_and_nothing_else(tmp_path: Path) -> None:
    names = ("dartes-sandbox-old", "dartes-sandbox-full/inside", "dartes-sandbox-young", "mine")
    for name in names:
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "dartes-sandbox-link").symlink_to(tmp_path / "mine")
    with Sandbox(folder=str(tmp_path)) as other:
        other.describe()
        for path in tmp_path.iterdir():
            if "young" not in path.name:
                os.utime(path, (1, 1))
        with Sandbox(folder=str(tmp_path)):
            assert other.run(ScriptRun("print(1)")).stdout == "1\n"
            left = {path.name.removeprefix("dartes-sandbox-") for path in tmp_path.iterdir()}
    assert {"full", "young", "mine", "link"} < left
    assert "old" not in left
    assert len(left) == 6  # and those of the two sandboxes


def test_a_sandbox_of_no_process_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one process"):
        Sandbox(0)


@pytest.mark.parametrize(
    ("levels", "words"),
    [
        (Levels(True, Namespaces.USER, True, 7, 1000), "own network namespace"),
        (
            Levels(True, Namespaces.NONE, False, 1, 1000),
            "no files but the interpreter's and a temporary folder (Landlock 1)",
        ),
        (Levels(True, Namespaces.NONE, False, 0, 1000), "no files at all"),
    ],
)
def test_the_levels_are_said_in_words(levels: Levels, words: str) -> None:
    assert words in describe(levels)
    assert Levels.from_json(levels.to_json()) == levels


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_every_jump_of_a_filter_stays_inside_and_every_path_returns(machine: str) -> None:
    program = seccomp.build(seccomp.Filter(machine, 1, may_open=False))
    for position, (code, true, false, _) in enumerate(program):
        if code not in (seccomp._LOAD, seccomp._RETURN):
            assert position + 1 + max(true, false) < len(program)
    assert program[-1] == (seccomp._RETURN, 0, 0, seccomp._ALLOW)
    assert sys.byteorder == "little"  # arguments are loaded as their low words
