"""`dartes status`: where a run stands, asked of its coordinator while it runs, else read from its store."""

import fcntl
import json
import os
import time
from typing import Any

from dartes.cli.control import ControlClient
from dartes.cli.progress import duration
from dartes.errors import ConfigurationError
from dartes.rpc import tls
from dartes.spec import load_job
from dartes.state import NoStateError, RunFolder, RunReader
from dartes.v1 import control_pb2 as wire

EVENTS_SHOWN = 5


def status_of(folder: RunFolder) -> dict[str, Any]:
    """The status of a run as a JSON object; never waits for the run.

    Raises
    ------
    ConfigurationError
        The folder is no run folder.
    """
    if not folder.job.is_file():
        raise ConfigurationError(f"{folder.path}: not a run folder (no {folder.job.name} in it)")
    running = is_held(folder)
    status = _from_store(folder, running)
    live = _ask_coordinator(folder) if running else None
    if live is not None:
        status.update(_from_wire(live))
    return status


def status_lines(status: dict[str, Any]) -> list[str]:
    """The status for people."""
    total = status["total_iterations"]
    of = "" if total is None else f" of {'~' if status['total_is_estimate'] else ''}{total}"
    lines = [
        f"{status['name']}: {status['phase']}, {status['iteration']}{of} iterations, epoch {status['epoch']}"
        + (f", {status['workers']} workers" if status["running"] else "")
    ]
    if status["message"]:
        lines.append(f"  {status['message']}")
    if status["iteration"]:
        lines.append(
            f"  pass rate {status['train_pass_rate']:.3f}, replay buffer {status['replay_buffer_size']}, "
            f"{status['tokens_per_second']:,.0f} tokens/s, "
            f"{status['last_iteration_seconds']:.1f} s per iteration"
            + (f", {duration(status['estimated_remaining_seconds'])} left" if status["running"] else "")
        )
    lines += [
        f"  {e['set']}: {100 * e['accuracy']:.1f} % after iteration {e['iteration']}"
        for e in status["evaluations"]
    ]
    lines += [f"  {e['time']}  {e['reason']}: {e['text']}" for e in status["events"]]
    return lines


def is_held(folder: RunFolder) -> bool:
    """Whether a process runs this folder now."""
    try:
        descriptor = os.open(folder.lock, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _from_store(folder: RunFolder, running: bool) -> dict[str, Any]:
    spec = load_job(folder.job)
    last = _last_metrics(folder)
    status: dict[str, Any] = {
        "folder": str(folder.path),
        "name": spec.job.metadata.name,
        "running": running,
        "phase": "Starting" if running else "Stopped",
        "message": "" if running else "not running; `dartes run` with the same job and folder resumes it",
        "iteration": 0,
        "total_iterations": spec.job.spec.es.iterations,
        "total_is_estimate": False,
        "epoch": last.get("epoch", 0),
        "train_pass_rate": last.get("pass_rate", 0.0),
        "replay_buffer_size": last.get("replay_buffer_size", 0),
        "tokens_per_second": last.get("tokens_per_second", 0.0),
        "last_iteration_seconds": last.get("seconds", 0.0),
        "estimated_remaining_seconds": 0.0,
        "workers": 0,
        "evaluations": [],
        "journal_hash": None,
        "weight_digest": None,
        "events": [],
    }
    try:
        reader = RunReader.open(folder)
    except NoStateError:
        return status
    except ConfigurationError:
        if folder.store.exists():
            raise
        return status
    with reader:
        status["iteration"] = reader.iteration_count()
        row = reader.last_row_hash()
        status["journal_hash"] = None if row is None else row.hex()
        if reader.meta_text("status") == "done" and not running:
            status.update(phase="Done", message="", weight_digest=reader.meta_text("weight_digest"))
        status["evaluations"] = [
            {"set": e.set_name, "iteration": e.iteration, "accuracy": e.accuracy, "problems": len(e.passed)}
            for e in reader.evaluations()
        ]
        status["events"] = [
            {"time": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at)), "reason": reason, "text": text}
            for at, reason, text in reader.events()[-EVENTS_SHOWN:]
        ]
    return status


def _last_metrics(folder: RunFolder) -> dict[str, Any]:
    try:
        lines = folder.metrics.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    for line in reversed(lines):
        try:
            parsed: dict[str, Any] = json.loads(line)
        except ValueError:
            continue  # being written right now
        return parsed
    return {}


def _ask_coordinator(folder: RunFolder) -> wire.StatusResponse | None:
    try:
        address = folder.endpoint.read_text(encoding="utf-8")
        credentials = tls.load(folder.tls / tls.Role.CONTROL.value)
    except FileNotFoundError:
        return None
    client = ControlClient(address, credentials)
    try:
        return client.status()
    finally:
        client.close()


def _from_wire(live: wire.StatusResponse) -> dict[str, Any]:
    phase = wire.Phase.Name(live.phase).removeprefix("PHASE_").title().replace("_", "")
    return {
        "phase": phase,
        "message": live.message,
        "iteration": live.iteration,
        "total_iterations": live.total_iterations,
        "total_is_estimate": live.total_is_estimate,
        "epoch": live.epoch,
        "replay_buffer_size": live.replay_buffer_size,
        "tokens_per_second": live.tokens_per_second,
        "estimated_remaining_seconds": live.estimated_remaining_seconds,
        "workers": live.workers_connected,
        "weight_digest": live.weight_digest or None,
    }
