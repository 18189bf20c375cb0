"""What it costs to load a data set: seconds and peak memory for a million problems in JSONL and in Parquet.

Each case is a fresh process that imports what it needs, loads the file through `dartes.data`, and then reads
every row once. Peaks are the kernel's (VmHWM), above what the imports alone take. The Parquet file has all
rows in one row group, as its writers do unless told otherwise.

Usage: python -m bench.data_loading [--problems COUNT]
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from bench.common import Figure, Row, all_reached, report
from bench.runs_support import ROOT

PROBLEMS: Final = 1_000_000
MIB: Final = 2**20
MOST_BYTES: Final = 128 * MIB
"""What loading may take above the imports, however many problems there are."""

MOST_SECONDS: Final = 60.0
_WORDS: Final = (
    "each",
    "gives",
    "left",
    "many",
    "number",
    "of",
    "apples",
    "half",
    "total",
    "twice",
    "how",
    "buys",
)
_BATCH: Final = 10_000


@dataclass(frozen=True)
class Case:
    """A file to load."""

    format: str
    problems: int
    path: Path


def problems(count: int) -> Iterator[dict[str, Any]]:
    """Problems of about the length of grade-school word problems, each with an id."""
    draw = random.Random(1)
    for number in range(count):
        yield {
            "id": f"problem-{number}",
            "question": " ".join(draw.choices(_WORDS, k=45)),
            "answer": " ".join(draw.choices(_WORDS, k=30)) + f" #### {number % 97}",
            "level": number % 5,
        }


def write_jsonl(path: Path, count: int) -> None:
    """One problem a line."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in problems(count))


def write_parquet(path: Path, count: int) -> None:
    """All problems in one row group."""
    pa, pq = import_module("pyarrow"), import_module("pyarrow.parquet")

    batches, rows = [], []
    for row in problems(count):
        rows.append(row)
        if len(rows) == _BATCH:
            batches.append(pa.RecordBatch.from_pylist(rows))
            rows = []
    if rows:
        batches.append(pa.RecordBatch.from_pylist(rows))
    pq.write_table(pa.Table.from_batches(batches), path, row_group_size=count)


# In the measured process -----------------------------------------------------------------------------


def peak_bytes() -> int:
    """VmHWM of this process."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/status has no VmHWM")


def measure(path: Path) -> Mapping[str, float | str]:
    """Load a file and read it through; seconds and peaks."""
    import_module("pyarrow.parquet")  # what reading needs is not what loading costs
    from dartes.data import load_dataset
    from dartes.spec.dataset import DatasetSpec

    start = peak_bytes()
    began = time.perf_counter()
    dataset = load_dataset(DatasetSpec(source=str(path)), path.parent)
    loaded, load_peak = time.perf_counter(), peak_bytes()
    text = sum(len(str(row["question"])) + len(str(row["answer"])) for row in dataset.rows)
    read, read_peak = time.perf_counter(), peak_bytes()
    return {
        "load_s": loaded - began,
        "read_s": read - loaded,
        "import_bytes": start,
        "load_peak_bytes": load_peak - start,
        "read_peak_bytes": read_peak - start,
        "text_bytes": text,
        "problems": len(dataset.rows),
        "digest": dataset.digest,
    }


# In the measuring process ----------------------------------------------------------------------------


def measured(case: Case) -> dict[str, Any]:
    """Measure a case in a process of its own."""
    command = [sys.executable, "-m", "bench.data_loading", "--measure", str(case.path)]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    if found["problems"] != case.problems:
        raise RuntimeError(f"{case.path}: {found['problems']} problems, not {case.problems}")
    return found


def cases(folder: Path, count: int) -> list[Case]:
    """Both formats, at a quarter of the size and at the whole."""
    made = []
    for size in (count // 4, count):
        for name, write in (("jsonl", write_jsonl), ("parquet", write_parquet)):
            path = folder / f"{size}.{name}"
            write(path, size)
            made.append(Case(name, size, path))
    return made


def main() -> int:
    """Measure all cases; 1 where one takes more than is allowed, or the formats' digests differ."""
    parser = argparse.ArgumentParser(prog="python -m bench.data_loading", description=__doc__)
    parser.add_argument("--problems", type=int, default=PROBLEMS, help=f"default {PROBLEMS:,}")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure is not None:
        print(json.dumps(measure(options.measure)))
        return 0
    with tempfile.TemporaryDirectory(prefix="dartes-bench-") as folder:
        found = [(case, measured(case)) for case in cases(Path(folder), options.problems)]
        sizes = {case.path.name: case.path.stat().st_size for case, _ in found}
    rows: list[Row] = [
        {
            "format": case.format,
            "problems": case.problems,
            "file, MiB": sizes[case.path.name] / MIB,
            "load, s": result["load_s"],
            "peak above imports, MiB": result["load_peak_bytes"] / MIB,
            "read all, s": result["read_s"],
            "then peak, MiB": result["read_peak_bytes"] / MIB,
        }
        for case, result in found
    ]
    figures = []
    for case, result in found:
        if case.problems != options.problems:
            continue
        peak = max(result["load_peak_bytes"], result["read_peak_bytes"])
        what = f"{case.problems:,} problems, {case.format}"
        figures += [
            Figure(
                f"{what}: memory to load and read all",
                f"at most {MOST_BYTES // MIB} MiB above the imports",
                f"{peak / MIB:.0f} MiB",
                peak <= MOST_BYTES,
            ),
            Figure(
                f"{what}: time to load",
                f"at most {MOST_SECONDS:.0f} s",
                f"{result['load_s']:.1f} s",
                result["load_s"] <= MOST_SECONDS,
            ),
        ]
    whole = {result["digest"] for case, result in found if case.problems == options.problems}
    figures.append(
        Figure("digest of JSONL and Parquet", "equal", "equal" if len(whole) == 1 else "no", len(whole) == 1)
    )
    report("data_loading", rows, {"text_bytes": found[-1][1]["text_bytes"]}, figures)
    return 0 if all_reached(figures) else 1


if __name__ == "__main__":
    sys.exit(main())
