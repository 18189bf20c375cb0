"""The layouts of code problems, told apart by their columns: HumanEval, MBPP, LiveCodeBench.

Each knows its columns, its prompts, and which runs grade an answer. Pure: a run is described, never made.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Protocol

from dartes.sandbox.runs import CheckedRun, Limits
from dartes.tasks.base import JSON, Row, RowError, shorten, str_column
from dartes.tasks.code_answers import begins_as_continuation, continuation, defines, definitions, last_block
from dartes.tasks.code_checks import MODULES, count_asserts, imports_of, names_bound
from dartes.tasks.code_verdicts import Step


class Layout(Protocol):
    """One layout of code problems."""

    name: ClassVar[str]
    columns: ClassVar[tuple[str, ...]]
    chat_prompt: ClassVar[str]
    raw_prompt: ClassVar[str]

    def view(self, row: Row) -> Row:
        """The row with the columns that its prompts use; raises `RowError`."""
        ...

    def reference(self, row: Row) -> str:
        """A right program, where the row holds one."""
        ...

    def check(self, row: Row, limits: Limits, most_tests: int) -> None:
        """Raise what `steps` would raise; keeps nothing large of the row."""
        ...

    def steps(self, row: Row, answer: str, limits: Limits, most_tests: int) -> tuple[Step, ...]:
        """The runs that grade an answer, at least one.

        `answer` includes a code block opened by the prompt. Raises `RowError` for a row that can't be used.
        """
        ...


class HumanEval:
    """`prompt` (a function's head), `test` (defines `check(candidate)`), `entry_point`."""

    name: ClassVar[str] = "HumanEval"
    columns: ClassVar[tuple[str, ...]] = ("prompt", "test", "entry_point")
    chat_prompt: ClassVar[str] = """\
Here is the beginning of a Python function. Write the whole function, with the imports that it needs, in one
code block.

```python
{prompt}
```
"""
    raw_prompt: ClassVar[str] = "{prompt}"

    def view(self, row: Row) -> Row:
        """See `Layout.view`."""
        return row

    def reference(self, row: Row) -> str:
        """See `Layout.reference`."""
        text = row.get("canonical_solution")
        return text if isinstance(text, str) else ""

    def check(self, row: Row, limits: Limits, most_tests: int) -> None:
        """See `Layout.check`."""
        self.steps(row, "", limits, most_tests)

    def steps(self, row: Row, answer: str, limits: Limits, most_tests: int) -> tuple[Step, ...]:
        """See `Layout.steps`. One run; each assert of `check` is a test."""
        del most_tests
        head, entry = str_column(row, "prompt"), str_column(row, "entry_point")
        if not entry.isidentifier():
            raise RowError(f"column 'entry_point' must be the name of a function, not {shorten(entry)}")
        test = count_asserts(str_column(row, "test"), f"check({entry})")
        program = _continued(head, answer, entry)
        names = {entry: entry, "candidate": entry}
        return (Step(CheckedRun(program, test.source, test.sites, (head,), names, {}, limits)),)


class Mbpp:
    """`text` or `prompt`, `test_list` (asserts); `test_imports`, `test_setup_code` where tests need it."""

    name: ClassVar[str] = "MBPP"
    columns: ClassVar[tuple[str, ...]] = ("text (or prompt)", "test_list")
    chat_prompt: ClassVar[str] = """\
{task}

Write Python code for this, in one code block. It will be tried with:

{tests}
"""
    raw_prompt: ClassVar[str] = chat_prompt + "\n```python\n"

    def view(self, row: Row) -> Row:
        """See `Layout.view`: `task` is the text, `tests` the asserts, one a line."""
        task = str_column(row, "text" if "text" in row else "prompt")
        return {**row, "task": task, "tests": "\n".join(_texts(row, "test_list"))}

    def reference(self, row: Row) -> str:
        """See `Layout.reference`."""
        text = row.get("code")
        return text if isinstance(text, str) else ""

    def check(self, row: Row, limits: Limits, most_tests: int) -> None:
        """See `Layout.check`."""
        self.steps(row, "", limits, most_tests)

    def steps(self, row: Row, answer: str, limits: Limits, most_tests: int) -> tuple[Step, ...]:
        """See `Layout.steps`. One run; each assert of `test_list` is a test."""
        asserts = _texts(row, "test_list")
        if not asserts:
            raise RowError("column 'test_list' must hold at least one test")
        test = count_asserts("\n".join(asserts[:most_tests] if most_tests else asserts))
        setup = str_column(row, "test_setup_code") if row.get("test_setup_code") else ""
        imports = "\n".join(_texts(row, "test_imports") if row.get("test_imports") else [])
        before = f"{imports}\n{imports_of(setup)}"
        free = test.free_names - names_bound(before)
        before += "".join(f"\nimport {module}" for module in sorted(free & MODULES))
        names = {name: name for name in sorted(free - MODULES)}
        wanted = names.keys() - names_bound(setup)
        block = last_block(answer, lambda source: definitions(source, wanted))
        program = (imports, answer if block is None else block, setup)
        return (Step(CheckedRun(program, test.source, test.sites, (before,), names, {}, limits)),)


def _texts(row: Row, name: str) -> list[str]:
    value: JSON = row.get(name)
    if (
        isinstance(value, str)
        or not isinstance(value, Sequence)
        or any(not isinstance(item, str) for item in value)
    ):
        raise RowError(f"column '{name}' must hold a list of texts, not {shorten(value)}")
    return [str(item) for item in value]


def _continued(head: str, answer: str, entry: str) -> tuple[str, ...]:
    """The sources that make a whole program of a function's head and an answer to it."""
    block = last_block(answer, lambda source: int(defines(source, entry)))
    if block is not None and defines(block, entry):
        return (head, block)
    if block is not None and not begins_as_continuation(answer):
        return (head + block,)
    if block is None and defines(answer, entry):
        return (head, answer)
    return (head + continuation(answer),)


def columns_of(layouts: Mapping[str, Layout]) -> str:
    """The layouts with their columns, for an error."""
    return "; ".join(f"{name}: {', '.join(layout.columns)}" for name, layout in layouts.items())
