"""The zygote: confines itself as far as it can, imports what programs use, then forks a process for each run.

Started by `process`; reads jobs from its standard input, writes results to its standard output. What becomes
of a job is `runner`'s.
"""

import contextlib
import gc
import importlib
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from dartes.sandbox import confine, files, frames, linux, runner
from dartes.sandbox.levels import Levels, Namespaces, describe, kernel_levels
from dartes.sandbox.modules import COMMON
from dartes.sandbox.namespaces import enter
from dartes.sandbox.runs import Limits
from dartes.sandbox.supervise import ParentGoneError

FIRST_USER = 61_184
USERS = 4_000
"""Where the zygote is root, programs run as one of these user ids, which no system gives to people."""


def main() -> NoReturn:
    """Serve runs until the input ends."""
    requests, replies = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.environ.clear()
    start = frames.read(requests)
    user = os.geteuid()
    granted = enter() if start["namespaces"] else Namespaces.NONE
    if not start["namespaces"]:
        linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
    linux.prctl(linux.PR_SET_DUMPABLE, 0)  # nobody of the same user may trace it or its programs
    for name in COMMON:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    _forget_own_path(start["own_path"])
    view = start["view"] and granted is not Namespaces.NONE and _enter_view(start["scratch"])
    if user == 0 and (view or files.others_can_read(str(Path(os.__file__).parent))):
        user = FIRST_USER + int(start["number"]) % USERS
    levels = kernel_levels(granted, view, user)
    if not start["landlock"]:
        levels = replace(levels, landlock=0)
    zygote = runner.Zygote(requests, replies, levels, start["scratch"], null, files.landlock_rules())
    if lacking := _lacking(levels):
        frames.write(replies, {"refused": lacking})
        os._exit(1)
    frames.write(replies, {"levels": levels.to_json(), "said": describe(levels)})
    gc.collect()
    gc.freeze()
    with contextlib.suppress(ParentGoneError):
        while (job := frames.read(requests)) is not None:
            frames.write(replies, _serve(zygote, job))
    os._exit(0)


def _serve(zygote: runner.Zygote, job: dict[str, Any]) -> dict[str, Any]:
    """Run one job, whose payloads follow it on the pipe."""
    limits = Limits(**job["limits"])
    try:
        payloads = [runner.take_payload(zygote.requests, size) for size in job["payloads"]]
        folder = runner.make_folder(zygote, limits)
    except OSError as error:
        return {"trouble": f"no folder for a program: {error}"}
    how = confine.Confinement(zygote.levels, limits, folder, zygote.rules)
    run = runner.run_script if job["kind"] == "script" else runner.run_checked
    try:
        return run(zygote, how, payloads).to_json()
    except runner.NotStartedError as error:
        return {"trouble": str(error)}
    finally:
        for payload in payloads:
            os.close(payload)
        runner.remove_folder(zygote, folder)


def _lacking(levels: Levels) -> str:
    """What this machine would need for running programs at all, if anything."""
    if not levels.seccomp:
        return "this kernel filters no system calls (seccomp)"
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError as error:
        return f"processes cannot be watched here (pidfd_open: {error})"
    return ""


def _enter_view(scratch: str) -> bool:
    try:
        files.enter_view(scratch)
    except OSError:
        return False
    return True


def _forget_own_path(own_path: str) -> None:
    """Programs find installed packages, not this one's sources."""
    sys.path[:] = [path for path in sys.path if path not in ("", own_path)]


if __name__ == "__main__":
    main()
