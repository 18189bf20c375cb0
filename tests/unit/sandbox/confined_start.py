"""A process as a pod under PodSecurity `restricted` has it, made by root in its own mounts: a script.

Read-only root, a writable temporary folder, a user without rights, no new privileges, and a filter that
refuses what container engines refuse by default. Prints, as JSON, what the sandbox says and does there.

Usage: confined_start.py CORE_FOLDER USER (restricted | plain)
"""

import json
import os
import struct
import sys
import tempfile
from pathlib import Path

CORE, USER, KIND = sys.argv[1], int(sys.argv[2]), sys.argv[3]
sys.path.insert(0, CORE)

from dartes.sandbox import linux, seccomp, syscalls  # noqa: E402
from dartes.sandbox.runs import CheckedRun, Limits, ScriptRun  # noqa: E402
from dartes.sandbox.sandbox import Sandbox  # noqa: E402

REFUSED_BY_ENGINES = ("unshare", "setns", "mount", "umount2", "pivot_root", "mount_setattr", "bpf", "ptrace")
# What the pod may write to hides what is there: not the interpreter, where this repository lies below /tmp.
TEMPORARY = "/var/tmp" if any(path.startswith("/tmp/") for path in (CORE, sys.prefix)) else "/tmp"
SECRET = f"{TEMPORARY}/secret"
PROGRAM = f"""
import os
found = ""
for path in ("{SECRET}", "/etc/shadow", "/etc/passwd", "/proc/1/environ"):
    try:
        found += open(path).read()
    except OSError:
        pass
import socket
try:
    socket.socket()
    found += "socket"
except OSError:
    pass
open("mine", "w").write("x")
import sqlite3 as lazily_imported
print(repr(found), os.listdir("."))
"""


def become_a_pod() -> None:
    """Own mounts, read-only but the temporary folder, the interpreter within reach; then the user."""
    linux.unshare(linux.CLONE_NEWNS)
    linux.mount("none", "/", None, linux.MS_REC | linux.MS_PRIVATE)
    prefix = sys.base_prefix
    closed = next(iter([p for p in ("/root",) if prefix.startswith(p + "/")]), None)
    if closed:
        linux.mount(prefix, "/mnt", None, linux.MS_BIND | linux.MS_REC)
        linux.mount("tmpfs", closed, "tmpfs", 0, "mode=755")
        Path(prefix).mkdir(parents=True)
        linux.mount("/mnt", prefix, None, linux.MS_BIND | linux.MS_REC)
    if KIND == "restricted":
        linux.make_read_only("/")
    linux.mount("tmpfs", TEMPORARY, "tmpfs", 0, "mode=1777")
    Path(SECRET).write_text("secret", "ascii")
    Path(SECRET).chmod(0o644)
    os.setgroups([])
    os.setresgid(USER, USER, USER)
    os.setresuid(USER, USER, USER)
    tempfile.tempdir = TEMPORARY
    linux.prctl(linux.PR_SET_DUMPABLE, 1)  # a change of user takes /proc/self away


def refuse_as_engines_do() -> None:
    """Install a filter for the calls that container engines refuse a container without capabilities."""
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    numbers = syscalls.REFUSED[os.uname().machine]
    program = [(0x20, 0, 0, 0)]
    for name in REFUSED_BY_ENGINES:
        program += [(0x15, 0, 1, numbers[name]), (0x06, 0, 0, 0x00050001)]
    program += [(0x06, 0, 0, 0x7FFF0000)]
    seccomp.install_program(b"".join(struct.pack("=HBBI", *instruction) for instruction in program))


def main() -> None:
    become_a_pod()
    if KIND == "restricted":
        refuse_as_engines_do()
    with Sandbox(2) as sandbox:
        script = sandbox.run(ScriptRun(PROGRAM, limits=Limits(2)))
        checked = sandbox.run(
            CheckedRun(
                ("def f(x): return x + 1",), "with __site__(0):\n    assert f(1) == 2", 1, names={"f": "f"}
            )
        )
        loop = sandbox.run(ScriptRun("import time\ntime.sleep(60)", limits=Limits(1)))
        said: dict[str, object] = {
            "levels": sandbox.levels().to_json(),
            "script": script.to_json(),
            "checked": checked.to_json(),
            "loop": loop.to_json(),
        }
    said["left"] = sorted(path.name for path in Path(TEMPORARY).iterdir())
    sys.stdout.write(json.dumps(said))


main()
