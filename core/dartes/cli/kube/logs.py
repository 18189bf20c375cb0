"""`kubectl dartes logs`: which pods' logs are meant, and `kubectl logs` of them, made readable."""

from collections.abc import Iterator
from dataclasses import dataclass

from dartes.cli.kube.kubectl import Kubectl
from dartes.cli.kube.loglines import readable
from dartes.cli.kube.names import COORDINATOR, READER, ROLE, WORKER, of_job
from dartes.cli.kube.objects import Pod, last_failed, newest
from dartes.cli.kube.status import job_named, pods_of
from dartes.errors import ConfigurationError

MOST_STREAMS = 2000
"""Logs that kubectl may follow at once; its own limit of 5 would refuse most jobs."""


@dataclass(frozen=True)
class Asked:
    """What the user wants to read; `worker` None is the coordinator."""

    worker: int | None = None
    everyone: bool = False
    follow: bool = False
    previous: bool = False
    raw: bool = False
    tail: int | None = None
    since: str | None = None


def log_lines(kubectl: Kubectl, name: str, asked: Asked) -> Iterator[str]:
    """The lines to print, as they come. ConfigurationError where there is no pod; else as `Kubectl.run`."""
    if asked.everyone:
        if not pods_of(kubectl, name):
            job_named(kubectl, name)
            raise _nobody(name, "pods")
        words = ["-l", f"{of_job(name)},{ROLE}!={READER}", "--prefix", "--ignore-errors"]
        words += [f"--max-log-requests={MOST_STREAMS}"]
        pod = None
    else:
        found = _pod(kubectl, name, asked)
        words, pod = [found.name, f"--container={found.role}"], found.name
    # With a selector kubectl shows only 10 lines unless it is told.
    words += [f"--tail={-1 if asked.tail is None else asked.tail}"]
    words += ["--follow"] if asked.follow else []
    words += [f"--since={asked.since}"] if asked.since else []
    for line in kubectl.lines("logs", *words):
        text = line.decode("utf-8", "replace")
        if asked.raw:
            yield text
        else:
            yield from readable(text, pod)


def _pod(kubectl: Kubectl, name: str, asked: Asked) -> Pod:
    role = COORDINATOR if asked.worker is None else WORKER
    pods = pods_of(kubectl, name, role)
    if asked.worker is not None:
        pods = [pod for pod in pods if pod.index == asked.worker]
    found = last_failed(pods) if asked.previous else newest(pods)
    if found is not None:
        return found
    job_named(kubectl, name)  # a misspelt name is the likelier mistake
    who = f"the {COORDINATOR}" if asked.worker is None else f"worker {asked.worker}"
    raise _nobody(name, f"failed pod of {who}" if asked.previous else f"pod of {who}")


def _nobody(name: str, what: str) -> ConfigurationError:
    return ConfigurationError(f"{name} has no {what} now; kubectl dartes status {name} says why")
