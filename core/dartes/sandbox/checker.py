"""The trusted side of a checked run: a data set's test, calling the program's functions in the other process.

Its verdict goes out on a descriptor that the program's process never had. The program's process can answer
calls, wrongly or not at all, and nothing else.
"""

import builtins
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dartes.sandbox import frames
from dartes.sandbox.values import decode, encode

CALLS, RESULTS, VERDICT = 3, 4, 5
"""Descriptors of a checker: requests go out, replies come in, the verdict goes out."""

_REASON_LIMIT = 200


class LostError(Exception):
    """The program's process is gone."""


class RemoteError(Exception):
    """The program raised something that is not a built-in exception."""


class Remote:
    """An object of the program's process, equal to itself alone. It can be called, and given back."""

    __slots__ = ("_link", "_number")

    def __init__(self, link: "Link", number: int) -> None:
        self._link = link
        self._number = number

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Call it there."""
        return self._link.call(self._number, arguments, keywords)


class Link:
    """Requests to the program's process, one at a time."""

    def __init__(self) -> None:
        self._trouble = ""

    def wait_until_loaded(self) -> None:
        """Until the program has run through once; later calls raise what it raised."""
        try:
            self._reply()
        except Exception as error:  # noqa: BLE001 - a program that does not load fails its tests, no more
            self._trouble = f"the program did not load: {_said(error)}"

    def get(self, name: str) -> Any:
        """A name of the program: a copy of its value, or the object to call."""
        return self._ask({"do": "get", "name": name})

    def call(self, number: int, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Call an object there. Raises what it raised."""
        request = {
            "do": "call",
            "what": number,
            "arguments": encode(list(arguments), self._number_of),
            "keywords": encode(keywords, self._number_of),
        }
        return self._ask(request)

    def _ask(self, request: Any) -> Any:
        if self._trouble:
            raise LostError(self._trouble)
        try:
            frames.write(CALLS, request)
            return self._reply()
        except (BrokenPipeError, frames.FrameError) as error:
            self._trouble = (
                "the program ended before its tests" if isinstance(error, BrokenPipeError) else str(error)
            )
            raise LostError(self._trouble) from None

    def _reply(self) -> Any:
        reply = frames.read(RESULTS)
        if reply is None:
            self._trouble = "the program ended before its tests"
            raise LostError(self._trouble)
        if not isinstance(reply, dict) or ("ok" in reply) == ("raised" in reply):
            raise frames.FrameError("the program wrote into the channel of its results")
        if "ok" in reply:
            return decode(reply["ok"], lambda number: Remote(self, int(number)))
        raise _exception(str(reply["raised"]), str(reply.get("message", "")))

    @staticmethod
    def _number_of(value: Any) -> int:
        if isinstance(value, Remote):
            return value._number
        raise TypeError(f"a {type(value).__name__} cannot be given to the program")


class Sites:
    """Which tests were reached, and which of them failed."""

    def __init__(self, count: int) -> None:
        self._reached = [False] * count
        self._failed = [False] * count
        self.reason = ""

    @contextmanager
    def site(self, number: int) -> Iterator[None]:
        """One passing of the `number`-th test: an exception inside fails it, and the checker goes on."""
        self._reached[number] = True
        try:
            yield
        except Exception as error:  # noqa: BLE001 - a test may raise anything: it failed
            self._failed[number] = True
            self.note(f"test {number + 1}: {_said(error)}")

    def note(self, reason: str) -> None:
        """Keep the first reason."""
        self.reason = self.reason or reason[:_REASON_LIMIT]

    def passed(self) -> list[bool]:
        """For each test whether it was reached and never failed."""
        return [reached and not failed for reached, failed in zip(self._reached, self._failed, strict=True)]


def check(job: dict[str, Any]) -> None:
    """Run a checker to its end and write the verdict."""
    sites = Sites(job["sites"])
    link = Link()
    link.wait_until_loaded()
    namespace: dict[str, Any] = {"__name__": "check", "__site__": sites.site}
    whole = True
    try:
        for source in job["before"]:
            exec(compile(source, "before.py", "exec", dont_inherit=True), namespace)
        namespace |= job["values"]
        for bound, name in job["names"].items():
            namespace[bound] = _bound(link, name)
        exec(compile(job["test"], "test.py", "exec", dont_inherit=True), namespace)
    except BaseException as error:  # noqa: BLE001 - the outermost frame of this process: the test did not end well
        whole = False
        sites.note(_said(error))
    frames.write(VERDICT, {"passed": sites.passed(), "whole": whole, "reason": sites.reason})


def _bound(link: Link, name: str) -> Any:
    try:
        return link.get(name)
    except Exception as error:  # noqa: BLE001 - a missing function fails the tests that call it
        return _raiser(error)


def _raiser(error: Exception) -> Any:
    def missing(*arguments: Any, **keywords: Any) -> Any:
        del arguments, keywords
        raise error

    return missing


def _exception(name: str, message: str) -> Exception:
    kind = getattr(builtins, name, None)
    if (
        isinstance(kind, type)
        and issubclass(kind, Exception)
        and not issubclass(kind, UnicodeError | ExceptionGroup)
    ):
        return kind(message)
    return RemoteError(f"{name}: {message}")


def _said(error: BaseException) -> str:
    if isinstance(error, LostError | RemoteError):
        return str(error)
    if isinstance(error, AssertionError):
        return f"not so: {error}" if str(error) else "not so"
    return f"{type(error).__name__}: {error}"
