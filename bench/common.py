"""What all benchmark scripts share: the machine's description, a printed table, a JSON file of results.

A script asks for figures and says of each what was asked, what was measured and whether that is enough.
"""

import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

Value: TypeAlias = str | int | float | bool | None
Row: TypeAlias = Mapping[str, Value]

RESULTS = Path(__file__).with_name("results")


@dataclass(frozen=True)
class Figure:
    """One figure to reach. `reached` is None where nothing was asked, or where it was not measured."""

    what: str
    asked: str
    measured: str
    reached: bool | None


def all_reached(figures: Sequence[Figure]) -> bool:
    """Whether no figure was missed."""
    return all(figure.reached is not False for figure in figures)


def machine() -> dict[str, Value]:
    """Processor, cores, memory in GiB, operating system and Python of this machine."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def report(
    name: str, rows: Sequence[Row], meta: Mapping[str, object], figures: Sequence[Figure] = ()
) -> Path:
    """Prints the rows as a table and writes rows, meta and machine to `bench/results/NAME.json`.

    Rows may have different keys; a cell without a value is empty. `meta` holds what applies to all rows:
    the settings measured, versions. `figures` are what was asked for. Returns the file's path.
    """
    described = machine()
    print(f"{name}: " + ", ".join(f"{value}" for value in described.values()))
    print(format_table(rows))
    for key, value in meta.items():
        print(f"{key}: {value}")
    if figures:
        print(format_table([figure_row(figure) for figure in figures]))
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}.json"
    document = {
        "name": name,
        "command": " ".join([Path(sys.executable).name, *sys.orig_argv[1:]]),
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": described,
        "figures": [asdict(figure) for figure in figures],
        "meta": dict(meta),
        "rows": [dict(row) for row in rows],
    }
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    print(f"written to {path}")
    return path


def figure_row(figure: Figure) -> Row:
    """A figure as a row of a table."""
    verdict = {True: "reached", False: "MISSED", None: ""}[figure.reached]
    return {"figure": figure.what, "asked": figure.asked, "measured": figure.measured, "": verdict}


def format_table(rows: Sequence[Row]) -> str:
    """Rows as aligned text columns: numbers to the right, floats with four significant digits."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    cells = [[_text(row.get(column)) for column in columns] for row in rows]
    widths = [max(len(line[i]) for line in [columns, *cells]) for i in range(len(columns))]
    numeric = [all(isinstance(row.get(c), int | float | None) for row in rows) for c in columns]
    lines = [columns, ["-" * width for width in widths], *cells]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ).rstrip()
        for line in lines
    )


def _text(value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return str(value)


def _processor() -> str:
    """The processor's name, with its model number where a virtual machine hides the name."""
    cpuinfo = Path("/proc/cpuinfo")
    if not cpuinfo.exists():
        return platform.processor() or "unknown"
    fields: dict[str, str] = {}
    for line in cpuinfo.read_text(encoding="utf-8").split("\n\n")[0].splitlines():
        field, _, value = line.partition(":")
        fields[field.strip()] = value.strip()
    name = fields.get("model name", platform.processor() or "unknown")
    return (
        f"{name} (family {fields.get('cpu family')}, model {fields['model']})" if "model" in fields else name
    )
