"""One run inside the zygote: fork its confined processes, watch them, make a result of how they ended.

Programs, inputs and checkers go from the pipe into anonymous files and from there to the processes they are
for; the zygote's memory, which every run inherits, never holds them.
"""

import contextlib
import json
import os
import random
import signal
import tempfile
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dartes.sandbox import checker, confine, files, frames, program
from dartes.sandbox.levels import Levels, Namespaces
from dartes.sandbox.runs import MIB, Ending, Limits, RunResult
from dartes.sandbox.supervise import Capture, ParentGoneError, Watched, tail_capture, watch

_VERDICT_BYTES = MIB
_SPLICE_BYTES = MIB
_TELLING = 7
_CONFINED = b"confined"
_TOLD_BYTES = 512


class NotStartedError(Exception):
    """The machine had no confined process to give; no word of the program was looked at."""


@dataclass(frozen=True, slots=True)
class Zygote:
    """What all runs have in common: the two pipes, the means of confinement, a place for folders."""

    requests: int
    replies: int
    levels: Levels
    scratch: str
    null: int
    rules: tuple[tuple[str, int], ...]


def run_script(zygote: Zygote, how: confine.Confinement, payloads: Sequence[int]) -> RunResult:
    source, stdin = payloads
    out, out_end = os.pipe()
    error, error_end = os.pipe()

    def body() -> int:
        return program.run_script(json.loads(_text(5)))

    try:
        child, told = _fork(how, {0: stdin, 1: out_end, 2: error_end, 5: source}, body)
    finally:
        os.close(out_end)
        os.close(error_end)
    output, errors = Capture(out, how.limits.output_bytes), tail_capture(error)
    try:
        ended = watch(_watched(zygote, how, child, (), (output, errors)), _sweeper(zygote))
    finally:
        os.close(out)
        os.close(error)
    _check_confined(told)
    return RunResult(
        ended.ending, ended.code, output.text, output.cut, errors.text, cpu_seconds=ended.cpu_seconds
    )


def run_checked(zygote: Zygote, how: confine.Confinement, payloads: Sequence[int]) -> RunResult:
    source, check = payloads
    calls, calls_end = os.pipe()
    results, results_end = os.pipe()
    verdict, verdict_end = os.pipe()

    def serve() -> int:
        return program.serve(json.loads(_text(5)))

    def judge() -> int:
        checker.check(json.loads(_text(6)))
        return 0

    null = zygote.null
    mine = {program.CALLS: calls, program.RESULTS: results_end}
    theirs = {checker.CALLS: calls_end, checker.RESULTS: results, checker.VERDICT: verdict_end}
    served = 0
    try:
        served, told = _fork(how, {0: null, 1: null, 2: null, 5: source, **mine}, serve)
        child, told_too = _fork(how, {0: null, 1: null, 2: null, 6: check, **theirs}, judge)
    except NotStartedError:
        if served:
            os.kill(served, signal.SIGKILL)
            os.waitpid(served, 0)
            os.close(told)
        os.close(verdict)
        raise
    finally:
        for end in (calls, calls_end, results, results_end, verdict_end):
            os.close(end)
    said = Capture(verdict, _VERDICT_BYTES)
    try:
        ended = watch(_watched(zygote, how, child, (served,), (said,)), _sweeper(zygote))
    finally:
        os.close(verdict)
    _check_confined(told)
    _check_confined(told_too)
    found: dict[str, Any] = {"passed": [], "whole": False, "reason": ""}
    if ended.ending in (Ending.DONE, Ending.CPU) and len(said.data) > frames.HEADER.size:
        found = json.loads(bytes(said.data[frames.HEADER.size :]))
    passed = tuple(found["passed"])
    reason = found["reason"] or ("" if found["whole"] else "the tests came to no end")
    return RunResult(ended.ending, ended.code, passed=passed, reason=reason, cpu_seconds=ended.cpu_seconds)


def _watched(
    zygote: Zygote,
    how: confine.Confinement,
    main: int,
    others: tuple[int, ...],
    captures: tuple[Capture, ...],
) -> Watched:
    def too_much() -> bool:
        size, count = files.used(how.temporary, how.limits.files)
        return size > how.limits.disk_mib * MIB or count > how.limits.files

    return Watched(
        main,
        others,
        captures,
        how.limits.seconds,
        how.limits.wall_seconds,
        how.limits.longest_seconds,
        zygote.requests,
        None if zygote.levels.view else too_much,
    )


def _fork(how: confine.Confinement, kept: dict[int, int], body: Callable[[], int]) -> tuple[int, int]:
    """Fork a confined process with these descriptors and no others; it ends with the status of `body`.

    Returns its number and a pipe that says whether it was confined before `body` began (`_check_confined`).
    """
    told, telling = os.pipe()
    try:
        child = os.fork()
    except OSError as error:
        raise NotStartedError(f"no process for a program: {error}") from error
    if child:
        os.close(telling)
        return child, told
    code = 125
    try:
        try:
            confine.take_descriptors({**kept, _TELLING: telling})
            confine.confine(how)
        except BaseException as error:  # noqa: BLE001 - told to the zygote, whose trouble it is
            os.write(_TELLING, f"cannot confine a process: {error!r}".encode()[:_TOLD_BYTES])
        else:
            os.write(_TELLING, _CONFINED)
            os.close(_TELLING)
            random.seed(0)
            code = body()
    except BaseException:  # noqa: BLE001 - the outermost frame of this process
        traceback.print_exc()
    finally:
        os._exit(code)


def _check_confined(told: int) -> None:
    """Raise `NotStartedError` where a process that has ended by now was never confined."""
    said = os.read(told, _TOLD_BYTES)
    os.close(told)
    if said != _CONFINED:
        raise NotStartedError(said.decode("utf-8", "replace") or "a process ended before it was confined")


def _text(descriptor: int) -> str:
    """The text of a payload, whose descriptor is then closed."""
    with open(descriptor, "rb") as file:
        return file.read().decode("utf-8", "surrogatepass")


def take_payload(source: int, size: int) -> int:
    """Move `size` bytes from the pipe to an anonymous file, past this process's memory, and rewind it."""
    payload = os.memfd_create("payload")
    moved = 0
    while moved < size:
        part = os.splice(source, payload, min(size - moved, _SPLICE_BYTES))
        if part == 0:
            raise ParentGoneError
        moved += part
    os.lseek(payload, 0, os.SEEK_SET)
    return payload


def make_folder(zygote: Zygote, limits: Limits) -> str:
    if zygote.levels.view:
        files.mount_temporary(limits.disk_mib, limits.files)
        return files.VIEW_TEMP
    folder = tempfile.mkdtemp(dir=zygote.scratch)
    if os.geteuid() == 0:
        os.chown(folder, zygote.levels.user, zygote.levels.user)
    return folder


def remove_folder(zygote: Zygote, folder: str) -> None:
    if zygote.levels.view:
        files.unmount_temporary()
    else:
        files.remove(folder)


def _sweeper(zygote: Zygote) -> Callable[[], None]:
    return _kill_all if zygote.levels.namespaces is not Namespaces.NONE else _kill_children


def _kill_all() -> None:
    """As the first process of the namespace: every other one in it."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)


def _kill_children() -> None:
    """As the reaper of orphans: every child, and with it its process group."""
    listed = Path(f"/proc/self/task/{os.getpid()}/children")  # not offered by every kernel
    for child in map(int, listed.read_text("ascii").split() if listed.exists() else ()):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
