"""Bytes on the wire per iteration, counted on the sockets, against broadcasting the weights.

Coordinator and workers are started as a local run starts them, but the workers reach the coordinator through
a counting TCP proxy: TLS, HTTP/2, keepalive and heartbeats are all in the count, IP and TCP headers are not.
What is sent depends on the population, the batch and the number of workers, never on the model's size.

Usage: python -m bench.wire [--iterations 8]
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.common import Figure, Row, all_reached, report
from bench.proxy_support import CountingProxy, Traffic
from bench.runs_support import ADDITION, changed_job, finished_run
from dartes.builtin import builtin_model
from dartes.checkpoint import open_checkpoint
from dartes.cli.children import Child
from dartes.cli.folder import locked, take_over
from dartes.errors import ExitCode
from dartes.rpc import tls
from dartes.spec import load_job
from dartes.state import RunFolder

WORKERS: Final = 2
DEADLINE_SECONDS: Final = 600.0
POLL_SECONDS: Final = 0.002
BYTES_PER_WEIGHT: Final = 2
LARGER_MODELS: Final = {"SmolLM2, 135 M": 134_515_008, "1.5 B": 1_500_000_000}


@dataclass(frozen=True)
class Counted:
    """Traffic at the end of each iteration, and the payload that the coordinator counted in it."""

    at_commit: tuple[Traffic, ...]
    payload: tuple[int, ...]


@contextmanager
def child(name: str, module: str, folder: RunFolder, *arguments: str) -> Iterator[Child]:
    """A process of the run, ended with the block."""
    process = Child(name, module, arguments, folder.logs / f"{name}.log", {"OMP_NUM_THREADS": "1"})
    try:
        yield process
    finally:
        process.end(10.0)


def count(iterations: int, scratch: Path) -> Counted:
    """Run the demo's job without evaluation through the proxy."""
    changes = {"evaluation.sets": [], "es.iterations": iterations}
    job = load_job(changed_job(ADDITION, changes, scratch / "job.yaml"))
    folder = RunFolder(scratch / "run")
    with locked(folder), ExitStack() as stack:
        take_over(folder, job)
        for role, credentials in tls.issue().items():
            tls.save(credentials, folder.tls / role.value)
        coordinator = stack.enter_context(
            child(
                "coordinator",
                "dartes_coordinator",
                folder,
                *("--run-dir", str(folder.path)),
                *("--listen", "127.0.0.1:0", "--tls", str(folder.tls / tls.Role.COORDINATOR.value)),
            )
        )
        proxy = stack.enter_context(CountingProxy(_port(coordinator, folder)))
        for index in range(WORKERS):
            address = ("--coordinator", f"127.0.0.1:{proxy.port}")
            keys = ("--tls", str(folder.tls / tls.Role.WORKER.value))
            job_words = ("--job", str(folder.job), "--snapshots", str(folder.snapshots))
            name = f"worker-{index}"
            stack.enter_context(
                child(name, "dartes_worker", folder, *address, *keys, *job_words, "--name", name)
            )
        at_commit = _watch(coordinator, folder, proxy)
    payload = tuple(int(it["wire_bytes"]) for it in finished_run(folder).beside)
    if len(at_commit) != iterations:
        raise RuntimeError(f"saw {len(at_commit)} of {iterations} commits")
    return Counted(tuple(at_commit), payload)


def _port(coordinator: Child, folder: RunFolder) -> int:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not folder.endpoint.exists():
        if coordinator.exit_code() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the coordinator does not listen: {coordinator.last_words()}")
        time.sleep(POLL_SECONDS)
    return int(folder.endpoint.read_text(encoding="utf-8").rpartition(":")[2])


def _watch(coordinator: Child, folder: RunFolder, proxy: CountingProxy) -> list[Traffic]:
    """The traffic whenever the metrics grew by an iteration, until the run is done."""
    seen: list[Traffic] = []
    size = 0
    deadline = time.monotonic() + DEADLINE_SECONDS
    while (code := coordinator.exit_code()) is None:
        if time.monotonic() > deadline:
            raise RuntimeError(f"not done within {DEADLINE_SECONDS:.0f} s")
        grown = folder.metrics.stat().st_size if folder.metrics.exists() else 0
        if grown != size:
            size = grown
            seen.append(proxy.traffic())
        time.sleep(POLL_SECONDS)
    if code != ExitCode.DONE:
        raise RuntimeError(f"the coordinator ended with {code}: {coordinator.last_words()}")
    return seen


def main() -> int:
    """Measure, print and write; 1 if the wire carries more than a broadcast would."""
    parser = argparse.ArgumentParser(prog="python -m bench.wire", description=__doc__)
    parser.add_argument("--iterations", type=int, default=8, help="the first, with start-up, is shown apart")
    options = parser.parse_args()
    if options.iterations < 2:
        parser.error(f"--iterations {options.iterations}: must be at least 2")
    spec = load_job(ADDITION).job.spec
    with tempfile.TemporaryDirectory() as scratch:
        counted = count(options.iterations, Path(scratch))
    first, last, steady = counted.at_commit[0], counted.at_commit[-1], options.iterations - 1
    up, down = (last.up - first.up) / steady, (last.down - first.down) / steady
    total = up + down
    payload = sum(counted.payload[1:]) / steady
    parameters = sum(info.count for info in open_checkpoint(builtin_model("addition")).trainable)
    rows: list[Row] = [
        {"what": "first iteration, with joining", "bytes": first.up + first.down},
        {"what": "an iteration, workers to coordinator", "bytes": round(up)},
        {"what": "an iteration, coordinator to workers", "bytes": round(down)},
        {"what": "an iteration, both ways", "bytes": round(total)},
        {"what": "of it messages, as the coordinator counts them", "bytes": round(payload)},
    ]
    for name, size in {"this model": parameters, **LARGER_MODELS}.items():
        broadcast = BYTES_PER_WEIGHT * size * WORKERS
        rows.append(
            {
                "what": f"weight broadcast, {name} (computed)",
                "bytes": broadcast,
                "times the wire": round(broadcast / total, 1),
            }
        )
    meta = {
        "job": ADDITION.name,
        "iterations counted": steady,
        "members N": spec.es.population_size,
        "batch B": spec.es.batch_size,
        "workers": WORKERS,
        "parameters": parameters,
        "bytes per member": round(total / spec.es.population_size, 1),
        "connections": last.connections,
        "cores": os.cpu_count(),
        "evaluation": "none",
    }
    broadcast = BYTES_PER_WEIGHT * parameters * WORKERS
    figures = [
        Figure(
            "bytes per iteration on the sockets",
            f"below a broadcast of this model's weights, {broadcast:,}",
            f"{total:,.0f}, {broadcast / total:.0f} times less",
            total < broadcast,
        )
    ]
    report("wire", rows, meta, figures)
    return 0 if all_reached(figures) else 1


if __name__ == "__main__":
    sys.exit(main())
