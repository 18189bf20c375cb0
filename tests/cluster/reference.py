"""What an undisturbed run of a job comes out as: the same job file, run by `dartes run` on this machine."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from .jobs import Job, manifest

WORKERS = 2
MORE = 3
"""Iterations after which a run counts as one that goes on."""


@dataclass(frozen=True)
class Reference:
    """Row hashes by iteration, and the two values that the finished run is known by."""

    rows: tuple[str, ...]
    journal_hash: str
    weight_digest: str


def run_locally(
    job: Mapping[str, Any],
    folder: Path,
    files: Mapping[str, str] = MappingProxyType({}),
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Reference:
    """Run a job with `dartes run`, workers without GPU; its history.

    `files` (name -> text) are put beside the job file; `environment` is added to this process's own.
    """
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    file = folder / "job.json"
    file.write_text(json.dumps({**job, "metadata": {"name": job["metadata"]["name"]}}), encoding="utf-8")
    run = folder / "run"
    command = [sys.executable, "-m", "dartes.cli.main", "run", str(file), "--workdir", str(run)]
    done = subprocess.run(
        [*command, "--workers", str(WORKERS)],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return Reference(
        tuple(json.loads(line)["row_hash"] for line in lines),
        summary["journal_hash"],
        summary["weight_digest"],
    )


def run_undisturbed(name: str, spec: Mapping[str, Any], folder: Path) -> Reference:
    """Run a cluster's job with `dartes run`, without what only the cluster has: its pace, room and volume."""
    of_cluster = ("env", "volumes", "volumeMounts", "resources")
    workers = {key: value for key, value in spec["workers"].items() if key not in of_cluster}
    local = {key: value for key, value in spec.items() if key != "checkpoint"}
    return run_locally(manifest(name, "", {**local, "workers": workers}), folder / name)


def assert_same_history(rows: Sequence[Mapping[str, Any]], reference: Reference, at_least: int = 1) -> None:
    """Each committed row must be the reference's: hashes are chained, so the last one vouches for all."""
    found = [str(row["row_hash"]) for row in rows]
    assert len(found) >= at_least, f"{len(found)} iterations are too few to compare"
    assert found == list(reference.rows[: len(found)]), "the history differs from an undisturbed run's"


def goes_on(job: Job, reference: Reference, since: int | None = None, seconds: float = 90.0) -> None:
    """`MORE` iterations are committed after `since` (default: those there are), each as it must be."""
    wanted = (len(job.rows()) if since is None else since) + MORE
    assert_same_history(job.wait_rows(wanted, seconds), reference, at_least=wanted)


def assert_same_end(job: Job, reference: Reference) -> None:
    """A complete job's status, and its coordinator's last words, name the reference's journal and weights."""
    wanted = (len(reference.rows), reference.journal_hash, reference.weight_digest)
    checkpoint = job.status["checkpoint"]
    assert (checkpoint["lastIteration"], checkpoint["journalHash"], checkpoint["digest"]) == wanted
    words = last_words(job)
    assert (words["iteration"], words["journalHash"], words["weightDigest"]) == wanted


def last_words(job: Job) -> dict[str, Any]:
    """What the coordinator's pod that finished the run left as its termination message."""
    for pod in job.pods("coordinator"):
        for container in pod["status"].get("containerStatuses", []):
            ended = container["state"].get("terminated")
            if ended and ended["exitCode"] == 0:
                words: dict[str, Any] = json.loads(ended["message"])
                return words
    raise AssertionError(f"no coordinator's pod ended well\n{job.describe()}")
