"""LiveCodeBench's layout: a question, and tests of a program's output or of a function's results.

Private tests come as JSON, or, as in the hub's release, compressed and pickled: of a pickle the one string in
it is read, and nothing is ever executed.
"""

import base64
import binascii
import io
import json
import pickletools
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from dartes.sandbox.runs import MIB, CheckedRun, Limits, ScriptRun
from dartes.tasks.base import Row, RowError, UnreadableReferenceError, shorten, str_column
from dartes.tasks.code_answers import definitions, last_block, last_script
from dartes.tasks.code_verdicts import Step

LARGEST_TESTS = 48 * MIB
"""Bytes of a problem's tests after decompression."""

LARGEST_OUTPUT = 8 * MIB
"""Bytes of output that are compared at most; more would not fit into a frame at its worst."""

COMMON_IMPORTS = """\
import bisect, collections, copy, functools, heapq, itertools, math, operator, random, re, string, sys
from bisect import *
from collections import *
from functools import *
from heapq import *
from itertools import *
from math import *
from operator import *
from typing import *
from math import pow
sys.setrecursionlimit(50000)
"""
"""What a solution of this benchmark may use without importing it."""

_COMPARE = """\
with __site__(0):
    found = candidate(*arguments)
    found = list(found) if isinstance(found, tuple) else found
    assert found == expected
"""
_STRING_OPCODES = frozenset({"UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"})
_HARMLESS_OPCODES = frozenset({"PROTO", "FRAME", "MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT", "STOP"})


@dataclass(frozen=True, slots=True)
class IoTest:
    """One test: the text given, the text expected, and whether they are a function's JSON values."""

    input: str
    output: str
    functional: bool


class LiveCodeBench:
    """`question_content`, `starter_code`, `public_test_cases`, `private_test_cases`, `metadata`."""

    name: ClassVar[str] = "LiveCodeBench"
    columns: ClassVar[tuple[str, ...]] = ("question_content", "public_test_cases")
    chat_prompt: ClassVar[str] = """\
{question_content}

{how}
"""
    raw_prompt: ClassVar[str] = chat_prompt + "\n```python\n"

    def view(self, row: Row) -> Row:
        """See `Layout.view`: `how` says how the program is to be written."""
        str_column(row, "question_content")
        starter = row.get("starter_code")
        if isinstance(starter, str) and starter.strip():
            how = f"Complete this code. Give all of it in one code block.\n\n```python\n{starter}\n```"
        else:
            how = (
                "Write a Python program for this that reads standard input and prints the answer. "
                "Give it in one code block."
            )
        return {**row, "how": how}

    def reference(self, row: Row) -> str:
        """See `Layout.reference`: these rows hold none."""
        del row
        return ""

    def check(self, row: Row, limits: Limits, most_tests: int) -> None:
        """See `Layout.check`."""
        function = _function_name(row)
        for test in _chosen(row, most_tests, _tests):
            _step(test, "", function, limits)

    def steps(self, row: Row, answer: str, limits: Limits, most_tests: int) -> tuple[Step, ...]:
        """See `Layout.steps`. One run for each test, public ones first."""
        function = _function_name(row)
        tests = _chosen(row, most_tests, _remembered_tests)
        program = _program(answer, function if any(test.functional for test in tests) else "")
        return tuple(_step(test, program, function, limits) for test in tests)


def _chosen(row: Row, most: int, read: Callable[[str], tuple[IoTest, ...]]) -> tuple[IoTest, ...]:
    tests = read(str_column(row, "public_test_cases")) + read(
        str_column(row, "private_test_cases") if row.get("private_test_cases") else ""
    )
    if not tests:
        raise RowError("columns 'public_test_cases' and 'private_test_cases' hold no test")
    return tests[:most] if most else tests


def _program(answer: str, function: str) -> str:
    """The block that holds the function, alone or as a method of `Solution`; of a script the whole one."""
    if function:
        block = last_block(answer, lambda source: int(definitions(source, (function, "Solution")) > 0))
    else:
        block = last_script(answer)
    return answer if block is None else block


def _step(test: IoTest, program: str, function: str, limits: Limits) -> Step:
    if not test.functional:
        output = min(max(limits.output_bytes, 2 * len(test.output) + 4096), LARGEST_OUTPUT)
        run = ScriptRun(program, test.input, _with_output(limits, output), COMMON_IMPORTS)
        return Step(run, test.output)
    if not function:
        raise RowError("column 'metadata' must be JSON with 'func_name', the function that the tests call")
    try:
        arguments = [json.loads(line) for line in test.input.split("\n") if line.strip()]
        expected = json.loads(test.output)
    except (ValueError, RecursionError) as error:
        raise UnreadableReferenceError(f"a test's values are not JSON: {error}") from None
    values = {"arguments": arguments, "expected": expected}
    names = {"candidate": f"{function}()"}
    return Step(CheckedRun((COMMON_IMPORTS, program), _COMPARE, 1, (), names, values, limits))


def _with_output(limits: Limits, output_bytes: int) -> Limits:
    return Limits(limits.seconds, limits.memory_mib, output_bytes, limits.disk_mib, limits.files)


def _tests(text: str) -> tuple[IoTest, ...]:
    if not text.strip():
        return ()
    try:
        cases = json.loads(text if text.lstrip().startswith("[") else _decompressed(text))
    except (ValueError, RecursionError) as error:
        raise UnreadableReferenceError(f"the test cases can't be read: {error}") from None
    if not isinstance(cases, list):
        raise UnreadableReferenceError(f"the test cases must be a list, not {shorten(cases)}")
    return tuple(_test(case) for case in cases)


_remembered_tests = lru_cache(maxsize=2)(_tests)
"""The two columns of the row whose answers are being graded; more could fill the worker's memory."""


def _test(case: Any) -> IoTest:
    fields = case if isinstance(case, dict) else {}
    given, expected, kind = fields.get("input"), fields.get("output"), fields.get("testtype", "stdin")
    if not isinstance(given, str) or not isinstance(expected, str) or kind not in ("stdin", "functional"):
        raise UnreadableReferenceError(
            "a test case must have texts 'input' and 'output', and 'testtype' stdin or functional, "
            f"not {shorten(case)}"
        )
    return IoTest(given, expected, kind == "functional")


def _decompressed(text: str) -> str:
    """The one string in a pickle that was compressed and written in base 64; raises ValueError."""
    try:
        packed = base64.b64decode(text, validate=True)
        unpacking = zlib.decompressobj()
        data = unpacking.decompress(packed, LARGEST_TESTS)
    except (binascii.Error, zlib.error) as error:
        raise ValueError(f"neither JSON nor compressed JSON ({error})") from None
    if unpacking.unconsumed_tail:
        raise ValueError(f"more than {LARGEST_TESTS // MIB} MiB")
    if data[:1] in (b"[", b'"'):
        return _string_or_list(data.decode())
    return string_in_pickle(data)


def string_in_pickle(data: bytes) -> str:
    """The string that a pickle holds, read from its opcodes; ValueError for a pickle of anything else."""
    found: list[str] = []
    for opcode, argument, _ in pickletools.genops(io.BytesIO(data)):
        if opcode.name in _STRING_OPCODES:
            found.append(str(argument))
        elif opcode.name not in _HARMLESS_OPCODES:
            raise ValueError(f"a pickle of something else than a text ({opcode.name})")
    if len(found) != 1:
        raise ValueError(f"a pickle of {len(found)} texts instead of one")
    return found[0]


def _string_or_list(text: str) -> str:
    value = json.loads(text)
    return value if isinstance(value, str) else text


def _function_name(row: Row) -> str:
    metadata: Any = row.get("metadata")
    if isinstance(metadata, str) and metadata.strip():
        try:
            metadata = json.loads(metadata)
        except (ValueError, RecursionError):
            raise RowError(f"column 'metadata' must be JSON, not {shorten(metadata)}") from None
    name = metadata.get("func_name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) and name.isidentifier() else ""
