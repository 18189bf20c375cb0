"""One worker's process from its arguments to its exit code: job and model loaded, leases answered."""

import os
import threading
from dataclasses import dataclass
from pathlib import Path

from dartes.errors import ExitCode
from dartes.logs import LogFields
from dartes.pod import Leaving
from dartes.rpc import tls
from dartes.spec.load import load_job
from dartes_worker.agent import Agent
from dartes_worker.client import CoordinatorClient
from dartes_worker.observer import Observer
from dartes_worker.setup import equip


@dataclass(frozen=True)
class Settings:
    """The arguments of a worker's process; `coordinator` and `http` are `HOST:PORT`."""

    coordinator: str
    tls: Path
    job: Path
    snapshots: Path
    name: str
    http: str | None


def run(settings: Settings, fields: LogFields, leaving: Leaving) -> int:
    """Serve the coordinator to the end; returns the exit code.

    Raises
    ------
    DartesError
        With the message and exit code that the process ends with.
    """
    observer = _observer(settings.http)
    credentials = tls.load(settings.tls)
    job = load_job(settings.job)
    equipment = equip(job.job.spec, job.base_dir)
    client = CoordinatorClient(
        settings.coordinator,
        credentials,
        settings.name,
        observer=observer,
        registered=lambda incarnation: fields.note(incarnation=incarnation),
    )
    equipment.trouble.listen(client.tell_trouble)
    agent = Agent(client, equipment, settings.snapshots, observer)
    seconds = job.job.spec.workers.scale_down.drain_seconds
    leaving.instead(lambda: _drain(agent, seconds))
    try:
        return agent.run()
    finally:
        client.close()
        equipment.close()


def _observer(http: str | None) -> Observer:
    if http is None:
        return Observer()
    from dartes_worker.probes import Probes  # the client of Prometheus is not needed without it

    return Probes.start(http)


def _drain(agent: Agent, seconds: float) -> None:
    # A lease that takes longer than the drain is given up: others have it at once when we are gone.
    timer = threading.Timer(seconds, os._exit, (ExitCode.DRAINED,))
    timer.daemon = True
    timer.start()
    agent.drain()
