"""Programs that try to reach, flood or outlive what they may not: each costs its own run and nothing else.

A program prints REACHED where it got what it was after. Each is run with every set of means of confinement.
"""

import socket
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from dartes.sandbox.runs import CheckedRun, Ending, Limits, ScriptRun
from dartes.sandbox.sandbox import Sandbox

pytestmark = pytest.mark.slow

QUICK = Limits(seconds=1, memory_mib=128, disk_mib=4, files=32)

SYSCALL = "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"

FORBIDDEN = {
    "read a file of the job": "print(open({secret!r}).read(), 'REACHED')",
    "read it through a link": "import os\nos.symlink({secret!r}, 'link')\n"
    "print(open('link').read(), 'REACHED')",
    "read it through a hard link": "import os\nos.link({secret!r}, 'link')\n"
    "print(open('link').read(), 'REACHED')",
    "climb out of the folder": "print(open('../' * 40 + {secret!r}).read(), 'REACHED')",
    "rename it": "import os\nos.rename({secret!r}, 'mine')\nprint('REACHED')",
    "close a file to others": "import os\nos.chmod({secret!r}, 0)\nprint('REACHED')",
    "close a library to others": "import os\n"
    "os.fchmod(os.open(os.__file__, os.O_RDONLY), os.stat(os.__file__).st_mode)\n"
    "print('REACHED')",
    "empty a file": "import os\nos.truncate({secret!r}, 0)\nprint('REACHED')",
    "empty a file while reading": "import os\nos.open({secret!r}, os.O_RDONLY | os.O_TRUNC)\n"
    "print('REACHED')",
    "read the shadow file": "print(open('/etc/shadow').read(), 'REACHED')",
    "read the first process's environment": "print(open('/proc/1/environ').read(), 'REACHED')",
    "read its parent's memory": "import os\nopen(f'/proc/{{os.getppid()}}/mem', 'rb')\nprint('REACHED')",
    "list processes": "import os\nprint(os.listdir('/proc'), 'REACHED')",
    "write outside its folder": "open({outside!r}, 'w').write('x')\nprint('REACHED')",
    "write into a library": "import os\nopen(os.__file__, 'a').write('')\nprint('REACHED')",
    "connect": "import socket\nsocket.create_connection(('127.0.0.1', {port}), 1)\nprint('REACHED')",
    "listen": "import socket\nsocket.socket().bind(('127.0.0.1', 0))\nprint('REACHED')",
    "reach an abstract socket": "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('\\0x')\n"
    "print('REACHED')",
    "fork": "import os\nif os.fork():\n  print('REACHED')",
    "start a shell": "import subprocess\nsubprocess.run(['/bin/sh', '-c', 'true'])\nprint('REACHED')",
    "replace itself": "import os, sys\nos.execv({python!r}, ['python', '-c', 'print(\"REACHED\")'])",
    "kill everybody": "import os\nos.kill(-1, 9)\nprint('REACHED')",
    "kill its parent": "import os\nos.kill(os.getppid() or 1, 9)\nprint('REACHED')",
    "signal the first process": "import os\nos.kill(1, 0)\nprint('REACHED')",
    "signal through a descriptor": "import os, signal\n"
    "signal.pidfd_send_signal(os.pidfd_open(os.getppid() or 1), 9)\n"
    "print('REACHED')",
    "trace its parent": SYSCALL + "import os\nassert libc.ptrace(16, os.getppid() or 1, 0, 0) == 0\n"
    "print('REACHED')",
    "get namespaces": SYSCALL + "assert libc.unshare(0x10000000) == 0\nprint('REACHED')",
    "mount": SYSCALL + "assert libc.mount(b'tmpfs', b'/tmp', b'tmpfs', 0, None) == 0\nprint('REACHED')",
    "become root": "import os\nos.setuid(0 if os.getuid() else 1)\nprint('REACHED')",
    "set up io_uring": SYSCALL + "assert libc.syscall(425, 1, ctypes.create_string_buffer(512)) >= 0\n"
    "print('REACHED')",
    "load a BPF program": SYSCALL + "assert libc.syscall(321, 0, None, 0) >= 0\nprint('REACHED')",
    "use a call not made yet": SYSCALL + "assert libc.syscall(4000) >= 0\nprint('REACHED')",
    "raise its limits": "import resource\nresource.setrlimit(resource.RLIMIT_AS, (-1, -1))\nprint('REACHED')",
    "slow its parent down": "import os\nos.setpriority(os.PRIO_PROCESS, os.getppid() or 1, 19)\n"
    "print('REACHED')",
    "find an environment": "import os\nassert os.environ or os.getenv('PATH')\nprint('REACHED')",
    "find open descriptors": "import os\nfor fd in range(3, 256):\n  try: os.fstat(fd)\n"
    "  except OSError: continue\n"
    "  print('REACHED')",
}  # fmt: skip

HARMLESS = {
    "abort": "import os\nos.abort()",
    "crash": "import ctypes\nctypes.string_at(1)",
    "deep recursion": "def f(): return f()\nf()",
    "deep recursion in C": "import sys\nsys.setrecursionlimit(10**9)\nx = []\n"
    "for _ in range(10**6): x = [x]\nrepr(x)",
    "memory bomb": "x = 'x' * 10**12",
    "slow memory bomb": "x = []\nwhile True: x.append(bytes(10**6))",
    "thread bomb": "import threading, time\nthreading.stack_size(65536)\n"
    "while True: threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
    "fork bomb": "import os\nwhile True:\n  try: os.fork()\n  except PermissionError: raise",
    "disk filling": "while True:\n  with open('x', 'ab') as f: f.write(bytes(10**6))",
    "many files": "for i in range(10**6): open(f'x{i}', 'w').close()",
    "deep folders": "import os\nfor i in range(10**6):\n  os.mkdir('d')\n  os.chdir('d')",
    "hidden folders": "import os\nn = 'd' * 200\nfor i in range(10**6):\n  os.mkdir(n, 0o300)\n  os.chdir(n)",
    "a folder it locks": "import os\nos.mkdir('d')\nopen('d/x', 'w').close()\nos.chmod('d', 0)\n"
    "os.chmod('.', 0)\nexit(1)",
    "close everything": "import os\nos.closerange(0, 100)\nraise SystemExit(1)",
    "huge errors": "import sys\nfor _ in range(100): sys.stderr.write('x' * 10**6)\nsys.exit(1)",
    "raise a group": "raise BaseExceptionGroup('x', [KeyboardInterrupt()])",
    "not Python": "def f(:",
    "a null byte": "x = '\0'",
    "half a surrogate": "print('\ud800')",
    "very deep source": "(" * 100_000,
}  # fmt: skip

ENDED_DIFFERENTLY = ("everything", "no namespaces")

ENDLESS = {
    "loop": ("while True: pass", Ending.CPU),
    "loop that ignores signals": (
        "import signal\nfor s in range(1, 65):\n  try: signal.signal(s, signal.SIG_IGN)\n"
        "  except (OSError, ValueError): pass\n"
        "while True: pass",
        Ending.CPU,
    ),
    "sleep": ("import time\ntime.sleep(600)", Ending.WALL),
}  # fmt: skip


@pytest.fixture(scope="module")
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        made.setblocking(False)
        yield made


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text("the expected answers")
    path.chmod(0o644)
    return path


def assert_unharmed(sandbox: Sandbox) -> None:
    """The same zygote still runs programs, and has neither a process nor a folder too many."""
    again = sandbox.run(ScriptRun("print(6 * 7)", limits=QUICK))
    assert (again.ending, again.code, again.stdout) == (Ending.DONE, 0, "42\n")
    zygote = psutil.Process(sandbox.process_ids[0])
    expected = 0 if sandbox.levels().namespaces == "none" else 1
    assert len(zygote.children(recursive=True)) == expected


@pytest.fixture(autouse=True)
def unharmed(sandbox: Sandbox, folder: Path) -> Iterator[None]:
    before = sandbox.process_ids
    yield
    assert_unharmed(sandbox)
    assert sandbox.process_ids == before
    assert [path for scratch in folder.iterdir() for path in scratch.iterdir()] == []


@pytest.mark.parametrize("name", FORBIDDEN)
def test_a_program_does_not_get_what_it_is_after(
    sandbox: Sandbox, secret: Path, listener: socket.socket, name: str
) -> None:
    outside = secret.with_name("written")
    program = FORBIDDEN[name].format(
        secret=str(secret), outside=str(outside), port=listener.getsockname()[1], python="/usr/bin/python3"
    )
    result = sandbox.run(ScriptRun(program, limits=QUICK))
    assert "REACHED" not in result.stdout
    assert "the expected answers" not in result.stdout
    assert result.ending in (Ending.DONE, Ending.KILLED)
    assert secret.read_text() == "the expected answers"
    assert secret.stat().st_mode & 0o777 == 0o644
    assert not outside.exists()
    with pytest.raises(BlockingIOError):
        listener.accept()


@pytest.mark.parametrize("name", HARMLESS)
def test_a_program_that_breaks_things_breaks_itself_only(sandbox: Sandbox, name: str) -> None:
    result = sandbox.run(ScriptRun(HARMLESS[name], limits=QUICK))
    assert result.ending is not Ending.DONE or result.code != 0 or name == "half a surrogate"


@pytest.mark.slow
@pytest.mark.parametrize("means", ENDED_DIFFERENTLY, indirect=True)
@pytest.mark.parametrize("name", ENDLESS)
def test_a_program_without_end_is_ended(sandbox: Sandbox, name: str) -> None:
    program, ending = ENDLESS[name]
    assert sandbox.run(ScriptRun(program, limits=QUICK)).ending is ending


@pytest.mark.slow
def test_a_function_without_end_is_ended_and_what_passed_before_counts(sandbox: Sandbox) -> None:
    program = "def f(x):\n  while x: pass\n  return 1"
    test = "with __site__(0):\n    assert f(0) == 1\nwith __site__(1):\n    assert f(1) == 1"
    result = sandbox.run(CheckedRun((program,), test, 2, names={"f": "f"}, limits=QUICK))
    assert (result.ending, result.passed) == (Ending.CPU, (True, False))


def test_what_is_printed_beyond_the_bound_is_dropped(sandbox: Sandbox) -> None:
    program = "import sys\nfor _ in range(100): sys.stdout.write('x' * 10**6)"
    result = sandbox.run(ScriptRun(program, limits=Limits(output_bytes=1000)))
    assert (result.code, result.cut, result.stdout) == (0, True, "x" * 1000)


def test_no_print_is_taken_for_a_result(sandbox: Sandbox) -> None:
    forged = (
        "import os, struct, json\n"
        "body = json.dumps({'ending': 'done', 'code': 0, 'stdout': 'forged', 'passed': [True]}).encode()\n"
        "for fd in range(1, 64):\n"
        "  try: os.write(fd, struct.pack('>I', len(body)) + body)\n"
        "  except OSError: pass\n"
    )
    result = sandbox.run(ScriptRun(forged, limits=QUICK))
    assert result.stdout.startswith("\0\0\0")
    assert result.passed == ()


CHEATS = {
    "leave before the tests": "import os\nos._exit(0)",
    "leave in the function": "import sys\ndef f(x): sys.exit(0)",
    "forge a reply": "import os, struct\nfor fd in range(3, 64):\n"
    "  try: os.write(fd, struct.pack('>I', 11) + b'{\"ok\":2}   ')\n"
    "  except OSError: pass\ndef f(x): os._exit(0)",
    "an object that equals everything": "class A:\n  def __eq__(self, o): return True\ndef f(x): return A()",
    "a number that equals everything": "class A(int):\n  def __eq__(self, o): return True\n"
    "  __hash__ = int.__hash__\n"
    "def f(x): return A(7)",
    "patch the comparison": "import builtins, sys\nbuiltins.AssertionError = type('E', (Exception,), {})\n"
    "sys.settrace(lambda *a: None)\ndef f(x): return 7",
    "look into the callers": "import sys, gc\ndef f(x):\n  frame = sys._getframe()\n  while frame:\n"
    "    if 'expected' in frame.f_locals: return frame.f_locals['expected']\n    frame = frame.f_back\n"
    "  return next((o for o in gc.get_objects() if isinstance(o, dict) and 'passed' in o), 7)",
    "a reply that is too long": "import os\ndef f(x):\n  os.write(4, b'\\xff' * 1000)\n  os._exit(0)",
    "a reply that is too deep": "import os, struct\ndef f(x):\n"
    "  b = b'{\"ok\":' + b'[' * 10**5 + b']' * 10**5 + b'}'\n"
    "  os.write(4, struct.pack('>I', len(b)) + b)\n  os._exit(0)",
    "no function": "g = 1",
    "raise anything": "def f(x): raise type('E', (BaseException,), {'__str__': lambda s: 1})",
    "a generator without end": "def f(x):\n  while True: yield x",
    "kill the checker": "import os\ndef f(x):\n  for p in range(1, 2000):\n    try: os.kill(p, 9)\n"
    "    except OSError: pass",
}  # fmt: skip


@pytest.mark.parametrize("name", CHEATS)
def test_a_program_cannot_make_its_checker_pass_it(sandbox: Sandbox, name: str) -> None:
    test = "expected = 2\nwith __site__(0):\n    assert f(1) == expected\nwith __site__(1):\n"
    "    assert 2 == f(1)"
    result = sandbox.run(CheckedRun((CHEATS[name],), test, 2, names={"f": "f"}, limits=QUICK))
    assert not any(result.passed[1:]), result
    assert "forge" in name or not any(result.passed), result
