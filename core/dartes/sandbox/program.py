"""The untrusted side of a run: executes a program as a script, or serves calls of its functions.

Runs in a confined process that ends with it. It holds nothing of the checker, and what it reports is believed
by nobody: a script is judged by its output, a function by its results.
"""

import atexit
import io
import os
import sys
import threading
import traceback
from collections.abc import Sequence
from types import CodeType
from typing import Any

from dartes.sandbox import frames
from dartes.sandbox.values import decode, encode

FILE_NAME = "answer.py"
CALLS, RESULTS = 3, 4
"""Descriptors of a served program: requests come in, replies go out."""

METHOD_MARK = "()"
_NAME = "answer"


def run_script(sources: Sequence[str]) -> int:
    """Execute a program's sources in one namespace as `python FILE` would; the exit status."""
    _standard_streams()
    code = 0
    try:
        namespace = _main_namespace("__main__")
        for source in sources:
            exec(_compiled(source), namespace)
    except SystemExit as leaving:
        code = _exit_status(leaving)
    except BaseException:  # noqa: BLE001 - the outermost frame of this process: a traceback and status 1
        traceback.print_exc()
        code = 1
    _wait_for_threads()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            code = code or 120
    return code


def serve(sources: Sequence[str]) -> int:
    """Execute a program's sources in one namespace, then answer requests until there are no more."""
    _standard_streams()
    namespace = _main_namespace(_NAME)
    try:
        for source in sources:
            exec(_compiled(source), namespace)
    except BaseException as error:  # noqa: BLE001 - whatever a program raises is its answer
        frames.write(RESULTS, _raised(error))
        return 1
    frames.write(RESULTS, {"ok": None})
    kept: list[Any] = []
    while (request := frames.read(CALLS)) is not None:
        frames.write(RESULTS, _answer(request, namespace, kept))
    return 0


def _answer(request: Any, namespace: dict[str, Any], kept: list[Any]) -> Any:
    def refer(value: Any) -> int:
        kept.append(value)
        return len(kept) - 1

    try:
        if request["do"] == "get":
            return {"ok": encode(_found(request["name"], namespace), refer)}
        arguments = decode(request["arguments"], kept.__getitem__)
        keywords = decode(request["keywords"], kept.__getitem__)
        return {"ok": encode(kept[request["what"]](*arguments, **keywords), refer)}
    except BaseException as error:  # noqa: BLE001 - whatever a program raises is its answer
        return _raised(error)


def _found(name: str, namespace: dict[str, Any]) -> Any:
    plain = name.removesuffix(METHOD_MARK)
    if plain != name and "Solution" in namespace:
        return getattr(namespace["Solution"](), plain)
    if plain not in namespace:
        raise NameError(f"name '{plain}' is not defined")
    return namespace[plain]


def _raised(error: BaseException) -> Any:
    try:
        message = str(error)[:200]
    except Exception:  # noqa: BLE001 - an exception of the program may have any __str__
        message = ""
    return {"raised": type(error).__name__, "message": message}


def _main_namespace(name: str) -> dict[str, Any]:
    module = type(sys)(name)
    sys.modules[name] = module  # so that pickling and dataclasses find it
    return module.__dict__


def _compiled(source: str) -> CodeType:
    return compile(source, FILE_NAME, "exec", dont_inherit=True)


def _standard_streams() -> None:
    """Fresh text streams on descriptors 0 to 2, as an interpreter that has just started has them."""
    sys.stdin = io.TextIOWrapper(open(0, "rb", closefd=False), "utf-8", "surrogateescape")  # noqa: SIM115
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        binary = open(descriptor, "wb", closefd=False)  # noqa: SIM115 - lives as long as the process
        setattr(sys, name, io.TextIOWrapper(binary, "utf-8", "backslashreplace"))
    for name in ("stdin", "stdout", "stderr"):
        setattr(sys, f"__{name}__", getattr(sys, name))
    sys.argv = [FILE_NAME]


def _exit_status(leaving: SystemExit) -> int:
    if leaving.code is None:
        return 0
    if isinstance(leaving.code, int):
        return leaving.code & 0xFF
    sys.stderr.write(f"{leaving.code}\n")
    return 1


def _wait_for_threads() -> None:
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    except BaseException:  # noqa: BLE001 - as at the end of an interpreter: shown, not counted
        traceback.print_exc()


def leave(code: int) -> None:
    """End this process now."""
    os._exit(code)
