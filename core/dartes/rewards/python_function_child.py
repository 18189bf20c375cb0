"""The process of a user's reward function, `python -m dartes.rewards.python_function_child`.

The function is the user's own and trusted: it has this process's environment, files and network. What it
prints goes to standard error, which is the worker's log, and never near the protocol. Answers of the model
are only handed over as text.
"""

import asyncio
import importlib
import importlib.util
import inspect
import json
import math
import os
import queue
import struct
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Final

LENGTH: Final = struct.Struct(">Q")
"""Before every message, which is JSON."""

LARGEST_SCORE: Final = 3.0e38
"""Scores travel as 32-bit numbers."""

TRAINER_ONLY: Final = ("trainer_state", "completion_ids", "environments")
"""What TRL's trainer passes and nothing here has."""

_SOURCE_MODULE = "_user_reward"
_SHOWN = 80


class RewardFunctionError(Exception):
    """The function can't be loaded, or what it gave is no list of scores; the message continues its name."""


def main() -> None:
    """Serve the parent process on the pipes that were standard input and output when it started."""
    requests, replies = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    sys.dont_write_bytecode = True  # a file that is changed twice in a second would not be read again
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_read_all, args=(requests, waiting), name="requests", daemon=True).start()
    place = waiting.get()
    try:
        function = load(**place)
    except RewardFunctionError as error:
        _reply(replies, {"error": str(error)})
        return
    _reply(replies, {"ready": True})
    while True:
        request = waiting.get()
        try:
            reply: dict[str, Any] = {"ready": True}
            if "completions" in request:
                reply = {"scores": call(function, place["file"], **request)}
            else:  # asked only whether it can be called with these columns
                arguments_for(function, dict.fromkeys((*request["columns"], "prompts", "completions")))
        except RewardFunctionError as error:
            reply = {"error": str(error)}
        sys.stdout.flush()
        _reply(replies, reply)


def load(module: str, file: str | None, function: str, folder: str) -> Callable[..., Any]:
    """Import the module, or run the file where there is no module name, and take the function from it.

    Raises RewardFunctionError; the error's own traceback is printed.
    """
    sys.path.insert(0, folder)
    try:
        loaded = importlib.import_module(module) if module else _run_file(str(file))
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        raise RewardFunctionError(f"can't be imported: {describe(error, file)}") from error
    found = getattr(loaded, "__file__", None)
    if module and file and found and not Path(found).samefile(file):
        raise RewardFunctionError(
            f"is not what is imported: {module!r} is Python's own or another package ({found}), not {file}; "
            "give the file another name"
        )
    wanted = getattr(loaded, function, None)
    if wanted is None:
        there = [name for name, value in vars(loaded).items() if _is_own_function(value, loaded)]
        raise RewardFunctionError(
            f"does not exist: {found or module} has no function {function!r} "
            f"(it has: {', '.join(there[:10]) or 'none'})"
        )
    if not callable(wanted):
        raise RewardFunctionError(f"is no function but {_short(wanted)}")
    result: Callable[..., Any] = wanted
    return result


def call(
    function: Callable[..., Any],
    file: str | None,
    prompts: list[Any],
    completions: list[Any],
    columns: Mapping[str, list[Any]],
) -> list[float]:
    """Call the function with one batch; one finite score per answer. Raises RewardFunctionError."""
    arguments = arguments_for(function, {**columns, "prompts": prompts, "completions": completions})
    try:
        result = function(**arguments)
        if inspect.isawaitable(result):
            result = asyncio.run(_awaited(result))
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        raise RewardFunctionError(f"raised {describe(error, file)}") from error
    return scores_of(result, len(completions))


def arguments_for(function: Callable[..., Any], offered: Mapping[str, Any]) -> dict[str, Any]:
    """What of `offered` the function takes by name; everything where it has `**kwargs`.

    Raises RewardFunctionError for a parameter without default that nothing is offered for.
    """
    offered = {**offered, "log_extra": _ignore, "log_metric": _ignore}
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # written in C, and silent about it
        return dict(offered)
    kinds = inspect.Parameter
    for parameter in parameters:
        if parameter.kind in (kinds.VAR_KEYWORD, kinds.VAR_POSITIONAL) or parameter.name in offered:
            if parameter.kind is kinds.POSITIONAL_ONLY:
                raise RewardFunctionError(f"takes {parameter.name!r} by position only; remove the '/'")
            continue
        if parameter.default is not kinds.empty:
            continue
        if parameter.name in TRAINER_ONLY:
            raise RewardFunctionError(
                f"asks for {parameter.name!r}, which only TRL's trainer has; give it a default: "
                f"{parameter.name}=None"
            )
        there = ", ".join(sorted(name for name in offered if not name.startswith("log_")))
        raise RewardFunctionError(
            f"asks for {parameter.name!r}, and the problems have no such column (offered are: {there}); "
            f"rename the parameter, or map a column: dataset.columns: {{{parameter.name}: ...}}"
        )
    if any(parameter.kind is kinds.VAR_KEYWORD for parameter in parameters):
        return dict(offered)
    named = {parameter.name for parameter in parameters}
    return {name: value for name, value in offered.items() if name in named}


def scores_of(result: object, count: int) -> list[float]:
    """A function's result as `count` finite numbers. Raises RewardFunctionError."""
    if not isinstance(result, list | tuple) and hasattr(result, "tolist"):
        result = result.tolist()  # an array or a tensor
    if not isinstance(result, list | tuple):
        advice = "; is a 'return' missing?" if result is None else ""
        raise RewardFunctionError(
            f"returned {_short(result)}; it must return a list with one number per answer{advice}"
        )
    if len(result) != count:
        raise RewardFunctionError(
            f"returned {len(result)} scores for {count} answers; it must return one number per answer, in "
            "their order"
        )
    return [_score(value, position) for position, value in enumerate(result)]


def _score(value: object, position: int) -> float:
    where = f"returned {_short(value)} as the score of answer {position + 1}"
    if value is None:
        raise RewardFunctionError(f"{where}; give 0.0 where an answer earns nothing")
    if isinstance(value, str | bytes) or not hasattr(value, "__float__"):
        raise RewardFunctionError(f"{where}; a score must be a number")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise RewardFunctionError(f"{where}; a score must be one number ({error})") from error
    if not math.isfinite(number) or abs(number) > LARGEST_SCORE:
        raise RewardFunctionError(f"{where}; a score must be a finite number, at most 3e38")
    return number


def describe(error: BaseException, file: str | None) -> str:
    """An error in one line: its type and text, and the last line of the user's own file that it went through.

    Where it never was in that file, the last line of all.
    """
    what = f"{type(error).__name__}: {_one_line(str(error))}" if str(error) else type(error).__name__
    if isinstance(error, SyntaxError) and error.filename:
        return f"{what} ({error.filename}, line {error.lineno})"
    frames = traceback.extract_tb(_tail(error.__traceback__))
    own = [frame for frame in frames if file and frame.filename == file]
    if not own and not frames:
        return what
    last = (own or list(frames))[-1]
    line = f": {last.line.strip()}" if last.line else ""
    return f"{what} ({last.filename}, line {last.lineno}, in {last.name}{line})"


def _tail(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames of this file at its front."""
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return trace


async def _awaited(result: Awaitable[Any]) -> Any:
    return await result


def _run_file(file: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        _SOURCE_MODULE, file, loader=importlib.machinery.SourceFileLoader(_SOURCE_MODULE, file)
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[_SOURCE_MODULE] = module  # dataclasses and pickle look it up
    spec.loader.exec_module(module)
    return module


def _is_own_function(value: object, module: ModuleType) -> bool:
    return inspect.isroutine(value) and getattr(value, "__module__", None) == module.__name__


def _ignore(*_: object, **__: object) -> None:
    """Stands for TRL's loggers of extra columns and metrics."""


def _short(value: object) -> str:
    text = _one_line(repr(value))
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _read_all(source: int, waiting: "queue.SimpleQueue[Any]") -> None:
    """Take requests for as long as there is a parent; without one this process ends, whatever it is at."""
    with open(source, "rb") as stream:
        while header := stream.read(LENGTH.size):
            body = stream.read(LENGTH.unpack(header)[0] if len(header) == LENGTH.size else 0)
            waiting.put(json.loads(body))
    os._exit(0)


def _reply(target: int, value: Mapping[str, bool | str | Sequence[float]]) -> None:
    body = json.dumps(value).encode("ascii")
    view = memoryview(LENGTH.pack(len(body)) + body)
    while view:
        view = view[os.write(target, view) :]


if __name__ == "__main__":
    main()
