"""`dartes status`: where a run stands, asked of its coordinator while it runs, else read from its store.

What only a running coordinator needs (gRPC, certificates) is imported when there is one, so that the answer
comes at once.
"""

import fcntl
import json
import os
import time
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from dartes.cli.folder import require_run
from dartes.cli.progress import duration
from dartes.cli.words import forgotten_words, sample_words, share_words
from dartes.errors import ConfigurationError
from dartes.pod import in_pod
from dartes.report.evaluations import accuracy_of, best_iteration, change_of, is_holdout, point_of
from dartes.spec import JobSpec, load_job
from dartes.state import NoStateError, RunFolder, RunReader

if TYPE_CHECKING:
    from dartes.v1 import control_pb2 as wire

EVENTS_SHOWN = 5

_PLACEMENT: Final = "MasterPlacement"
"""Events that say where master weights lie: shown on lines of their own, however old they are."""

_DONE: Final = {"running": False, "message": "", "workers": 0, "estimated_remaining_seconds": 0.0}


class RunPhase(StrEnum):
    """What a run is doing, in the word that `dartes status --json` gives; the same words as on the wire."""

    STARTING = "Starting"
    WAITING_FOR_WORKERS = "WaitingForWorkers"
    RUNNING = "Running"
    FINISHING = "Finishing"
    PAUSED = "Paused"
    FAILED = "Failed"
    STOPPED = "Stopped"
    DONE = "Done"


def status_of(folder: RunFolder) -> dict[str, Any]:
    """The status of a run as a JSON object, with the same keys in every phase; never waits for the run.

    In a pod of a job nobody holds the folder's lock, and only its operator may ask the coordinator: a run
    that is not done is taken to go on there, and what its files don't tell is null.

    Raises
    ------
    ConfigurationError
        The folder is no run folder, or its store is damaged.
    """
    require_run(folder)
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
    workers = f", {status['workers']} workers" if status["workers"] is not None and status["running"] else ""
    # People count from 1, files and options from 0.
    stage = f"stage {status['stage'] + 1} of {status['stages']}, " if status["stages"] > 1 else ""
    lines = [
        f"{status['name']}: {_in_words(status['phase'])}, {status['iteration']}{of} iterations, "
        f"{stage}epoch {status['epoch']}{workers}"
    ]
    if status["message"]:
        lines.append(f"  {status['message']}")
    if status["iteration"]:
        remaining = status["estimated_remaining_seconds"]
        left = f", {duration(remaining)} left" if remaining is not None and status["running"] else ""
        lines.append(
            f"  pass rate {status['train_pass_rate']:.3f}, replay buffer {status['replay_buffer_size']}, "
            f"{status['tokens_per_second']:,.0f} tokens/s, "
            f"{status['last_iteration_seconds']:.1f} s for the last iteration{left}"
        )
        lines += _long_tail(status)
    lines += [f"  {placement}" for placement in status["placements"]]
    newest = {entry["set"]: entry for entry in status["evaluations"]}
    for entry in status["evaluations"]:
        lines.append(f"  {_evaluation_line(entry)}")
        if newest[entry["set"]] is entry:
            lines.append(f"    {_details(entry)}")
    lines += [f"  {e['time']}  {e['reason']}: {e['text']}" for e in status["events"]]
    return lines


def evaluations_of(reader: RunReader, first_set: str | None) -> list[dict[str, Any]]:
    """Every evaluation as a JSON object, by iteration, then set.

    The newest of each set has all that `point_of` says; the others what is found at once, since there may be
    many. `best` marks the best one of the job's first set, by which the best iteration is chosen, and no
    other. `against_base` says that passes are wins over the base model. `change` is what a holdout has
    changed by since the base model, in points, where it was evaluated on both; null for all others.
    """
    stored = reader.evaluations()
    best = best_iteration(stored, first_set)
    base = {e.set_name: e for e in stored if e.iteration == 0}
    newest = {e.set_name: e for e in stored}
    entries = []
    for evaluation in stored:
        first = base.get(evaluation.set_name)
        compared = is_holdout(evaluation) and first is not None and first is not evaluation
        entries.append(
            {
                "set": evaluation.set_name,
                "holdout": is_holdout(evaluation),
                "best": evaluation.set_name == first_set and evaluation.iteration == best,
                "against_base": bool(evaluation.beside.get("against_base")),
                "change": change_of(first, evaluation) if compared and first is not None else None,
                **(point_of if newest[evaluation.set_name] is evaluation else accuracy_of)(evaluation),
            }
        )
    return entries


def _long_tail(status: dict[str, Any]) -> list[str]:
    """How long the last iteration's workers waited for a batch's last sequences; nothing where none did."""
    tail, alone = status["tail_seconds"], status["alone_seconds"]
    if not tail and not alone:
        return []
    return [
        f"  long tail: {tail:.1f} s of all workers with less than a quarter of a batch's sequences left, "
        f"{alone:.1f} s with one"
    ]


def _evaluation_line(entry: dict[str, Any]) -> str:
    kind = " (holdout)" if entry["holdout"] else ""
    wins = " better than the base model" if entry["against_base"] and entry["accuracy"] is not None else ""
    line = f"{entry['set']}{kind}: {share_words(entry)}{wins} after iteration {entry['iteration']}"
    if entry["change"] is not None:
        line += f"; forgotten: {forgotten_words(entry['change'])}"
    return f"{line}  <- best" if entry["best"] else line


def _details(entry: dict[str, Any]) -> str:
    """What else is known of an evaluation, in a few words."""
    known = [f"{entry['problems']} problems{sample_words(entry)}"]
    known.append(f"{_percent(entry['truncated_share'])} cut off")
    if entry["mean_length"] is not None:
        known.append(f"{entry['mean_length']:.0f} tokens on average")
    if entry["format_share"] is not None:
        known.append(f"format {_percent(entry['format_share'])}")
    if entry["mean_score"] is not None and entry["accuracy"] is not None:
        known.append(f"mean score {entry['mean_score']:.4g}")
    return ", ".join(known)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


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
        "running": True,
        "phase": RunPhase.STARTING,
        "message": "",
        "iteration": 0,
        "total_iterations": _total_iterations(spec.job.spec),
        "total_is_estimate": False,
        "stage": last.get("stage", 0),
        "stages": len(spec.job.spec.training_stages()),
        "epoch": last.get("epoch", 0),
        "train_pass_rate": last.get("pass_rate", 0.0),
        "replay_buffer_size": last.get("replay_buffer_size", 0),
        "tokens_per_second": last.get("tokens_per_second", 0.0),
        "last_iteration_seconds": last.get("seconds", 0.0),
        "tail_seconds": last.get("tail_seconds") or 0.0,
        "alone_seconds": last.get("alone_seconds") or 0.0,
        "estimated_remaining_seconds": 0.0,
        "workers": 0,
        "placements": [],
        "evaluations": [],
        "journal_hash": None,
        "weight_digest": None,
        "events": [],
    }
    if not running and in_pod():
        status.update(phase=RunPhase.RUNNING, workers=None, estimated_remaining_seconds=None)
    elif not running:
        resumes = f"not running; `dartes run {folder.job} --workdir {folder.path}` resumes it"
        status.update(running=False, phase=RunPhase.STOPPED, message=resumes)
    if not folder.store.exists():
        return status
    try:
        reader = RunReader.open(folder)
    except NoStateError:
        return status
    with reader:
        status["iteration"] = reader.iteration_count()
        row = reader.last_row_hash()
        status["journal_hash"] = None if row is None else row.hex()
        if reader.meta_text("status") == "done" and not running:
            digest = reader.meta_text("weight_digest")
            status.update(_DONE, phase=RunPhase.DONE, weight_digest=digest)
        sets = spec.job.spec.evaluation.sets
        status["evaluations"] = evaluations_of(reader, sets[0].name if sets else None)
        events = reader.events()
        status["placements"] = list(dict.fromkeys(text for _, reason, text in events if reason == _PLACEMENT))
        status["events"] = [
            {"time": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at)), "reason": reason, "text": text}
            for at, reason, text in [e for e in events if e[1] != _PLACEMENT][-EVENTS_SHOWN:]
        ]
    return status


def _total_iterations(spec: JobSpec) -> int | None:
    """The length of the run where the job says it in iterations; None where some of it is in epochs."""
    lengths = [stage.iterations for stage in spec.dataset.stages] or [spec.es.iterations]
    known = [length for length in lengths if length is not None]
    return sum(known) if len(known) == len(lengths) else None


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


def _ask_coordinator(folder: RunFolder) -> "wire.StatusResponse | None":
    from dartes.cli.control import ControlClient
    from dartes.rpc import tls

    try:
        address = folder.endpoint.read_text(encoding="utf-8")
        credentials = tls.load(folder.tls / tls.Role.CONTROL.value)
    except (FileNotFoundError, ConfigurationError):
        return None
    client = ControlClient(address, credentials)
    try:
        return client.status()
    finally:
        client.close()


def _from_wire(live: "wire.StatusResponse") -> dict[str, Any]:
    """What a coordinator knows better than its files; keys as in `_from_store`."""
    from dartes.v1 import control_pb2

    word = control_pb2.Phase.Name(live.phase).removeprefix("PHASE_").title().replace("_", "")
    known: dict[str, Any] = {
        "phase": RunPhase(word) if word in tuple(RunPhase) else RunPhase.STARTING,
        "message": live.message,
        "iteration": live.iteration,
        "total_iterations": live.total_iterations,
        "total_is_estimate": live.total_is_estimate,
        "stage": live.stage,
        "stages": max(1, live.stages),
        "epoch": live.epoch,
        "replay_buffer_size": live.replay_buffer_size,
        "estimated_remaining_seconds": live.estimated_remaining_seconds,
        "workers": live.workers_connected,
        "journal_hash": live.journal_hash or None,
        "weight_digest": live.weight_digest or None,
    }
    if live.iteration:
        known |= {
            "train_pass_rate": live.train_pass_rate,
            "tokens_per_second": live.tokens_per_second,
            "last_iteration_seconds": live.last_iteration_seconds,
        }
    return known


def _in_words(phase: str) -> str:
    """`WaitingForWorkers` as people write it."""
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in phase).strip()
