"""Asks the coordinators of running jobs where they stand, and wakes a job when the answer changes.

It writes nothing. Training never waits for it, and an answer that does not come is no failure: the last one
stands until the coordinator's pod is gone. However many coordinators are silent, those that answer are asked
in time.
"""

import asyncio
import contextlib
import functools
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import grpc
import grpc.aio

from dartes.rpc.channel import CLIENT_OPTIONS
from dartes.rpc.tls import Credentials
from dartes.v1 import control_pb2, control_pb2_grpc
from dartes_operator.api import Api, ApiRefusalError, ApiUnavailableError
from dartes_operator.cache import Cache
from dartes_operator.certificates import credentials_in, secret_name
from dartes_operator.kinds import AUTHORITY, Key, is_finished, labels, metadata
from dartes_operator.logs import speak_of
from dartes_operator.plan.types import Kind, Manifest, Progress

log = logging.getLogger(__name__)

PORT = 7443
AT_ONCE = 20
# Of these, so many wait at most for coordinators that were silent when they were last asked.
SILENT_AT_ONCE = 14
TIMEOUT_SECONDS = 2.0
OFTEN_SECONDS = 2.0
SELDOM_SECONDS = 5.0
TICK_SECONDS = 0.5
# About to finish: polled often, so that the end is told promptly.
NEARLY_DONE_SECONDS = 20.0


@dataclass(frozen=True)
class Target:
    """A coordinator that can be asked: its job, its pod's address, and whose certificates it has."""

    key: Key
    job_uid: str
    address: str
    authority: str


@dataclass
class _Line:
    target: Target
    channel: grpc.aio.Channel
    due: float
    # How often in a row nobody has answered.
    silences: int = 0


class ProgressPoller:
    """Polls every running coordinator, at most twenty at once."""

    def __init__(
        self,
        api: Api,
        cache: Cache,
        changed: Callable[[Key], None],
        clock: Callable[[], float],
        now: Callable[[], datetime],
        port: int = PORT,
    ) -> None:
        self._port = port
        self._api = api
        self._cache = cache
        self._changed = changed
        self._clock = clock
        self._now = now
        self._lines: dict[Key, _Line] = {}
        self._retry_at: dict[Key, float] = {}
        self._bugs: dict[Key, str] = {}
        self._asking: dict[Key, asyncio.Task[None]] = {}
        self._places = asyncio.Semaphore(AT_ONCE)
        self._silent_places = asyncio.Semaphore(SILENT_AT_ONCE)

    async def run(self) -> None:
        """Poll until cancelled."""
        try:
            while True:
                await self.start()
                await asyncio.sleep(TICK_SECONDS)
        finally:
            for key in self._lines.keys() | self._asking.keys():
                await self._hang_up(key)

    async def tick(self) -> None:
        """Ask every coordinator that is due now, and wait for the answers."""
        await self.start()
        await asyncio.gather(*self._asking.values())

    async def start(self) -> None:
        """Begin to ask every coordinator that is due now and not being asked already."""
        targets = {target.key: target for target in targets_in(self._cache, self._port)}
        for key in self._lines.keys() | self._asking.keys():
            if key not in targets or (key in self._lines and targets[key] != self._lines[key].target):
                await self._hang_up(key)
        for known in (self._retry_at, self._bugs):
            for key in known.keys() - targets.keys():
                del known[key]
        now = self._clock()
        for key, target in targets.items():
            due = self._lines[key].due if key in self._lines else self._retry_at.get(key, now)
            if due <= now and key not in self._asking:
                task = asyncio.create_task(self._ask_in_turn(target))
                self._asking[key] = task
                task.add_done_callback(functools.partial(self._asked, key))

    def _asked(self, key: Key, task: asyncio.Task[None]) -> None:
        # Not in the task itself: one that is cancelled before its first step never gets there.
        if self._asking.get(key) is task:
            del self._asking[key]

    async def _ask_in_turn(self, target: Target) -> None:
        """Ask when there is a place; who was silent before takes none of those kept for the others."""
        line = self._lines.get(target.key)
        silent = self._silent_places if line is not None and line.silences else contextlib.nullcontext()
        async with silent, self._places:
            await self._ask(target)

    async def _ask(self, target: Target) -> None:
        with speak_of(target.key):
            try:
                await self._ask_named(target)
            except Exception as error:
                # The outermost edge of one question: one job's bug must not end the polling of the others.
                what = f"{type(error).__name__}: {error}"
                if self._bugs.get(target.key) != what:
                    log.exception("a bug in asking the coordinator; asked again every %.0f s", SELDOM_SECONDS)
                self._bugs[target.key] = what
                self._ask_seldom(target.key)
            else:
                self._bugs.pop(target.key, None)

    def _ask_seldom(self, key: Key) -> None:
        again = self._clock() + SELDOM_SECONDS
        if key in self._lines:
            self._lines[key].due = again
        else:
            self._retry_at[key] = again

    async def _ask_named(self, target: Target) -> None:
        line = self._lines.get(target.key) or await self._dial(target)
        if line is None:
            return
        try:
            answer = await control_pb2_grpc.ControlServiceStub(line.channel).Status(
                control_pb2.StatusRequest(), timeout=TIMEOUT_SECONDS
            )
        except grpc.aio.AioRpcError as error:
            log.debug("the coordinator does not answer: %s", error.code())
            line.silences += 1
            line.due = self._clock() + OFTEN_SECONDS
            return
        line.silences = 0
        progress = to_progress(answer, self._now())
        line.due = self._clock() + interval(progress)
        found = self._cache.observe(target.key)
        if found is None:
            return
        before = self._cache.progress(target.key, found[0])
        self._cache.put_progress(target.key, target.job_uid, progress)
        if before is None or _essence(before) != _essence(progress):
            self._changed(target.key)

    async def _dial(self, target: Target) -> _Line | None:
        try:
            secret = await self._api.get(
                Kind.SECRET, target.key.namespace, secret_name(target.key.name, "operator")
            )
        except (ApiRefusalError, ApiUnavailableError) as error:
            log.warning("the certificate of the control role can't be read: %s", error)
            secret = None
        credentials = credentials_in(secret) if secret is not None else None
        if credentials is None:
            self._retry_at[target.key] = self._clock() + SELDOM_SECONDS
            return None
        self._retry_at.pop(target.key, None)
        line = _Line(target, _open(target.address, credentials), self._clock())
        self._lines[target.key] = line
        return line

    async def _hang_up(self, key: Key) -> None:
        asking = self._asking.pop(key, None)
        if asking is not None:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
        line = self._lines.pop(key, None)
        if line is None:
            return
        self._cache.put_progress(key, line.target.job_uid, None)
        await line.channel.close()


def targets_in(cache: Cache, port: int = PORT) -> list[Target]:
    """The coordinators that can be asked: running pods of unfinished jobs."""
    found: list[Target] = []
    for key, job in cache.jobs():
        if is_finished(job):
            continue
        for pod in cache.pods(job):
            address = _address(pod, port)
            if address is not None:
                authority = (metadata(pod).get("annotations") or {}).get(AUTHORITY, "")
                found.append(Target(key, metadata(job)["uid"], address, authority))
    return found


def interval(progress: Progress) -> float:
    """Seconds until the next question: often before the first commit and near the end."""
    left = progress.estimated_remaining_seconds
    nearly = progress.iteration + 1 >= progress.total_iterations or 0 < left < NEARLY_DONE_SECONDS
    return OFTEN_SECONDS if progress.iteration == 0 or nearly else SELDOM_SECONDS


def to_progress(answer: control_pb2.StatusResponse, now: datetime) -> Progress:
    """The coordinator's words as planning takes them."""
    latest = max(answer.evaluations, key=lambda score: score.iteration, default=None)
    accuracy = latest.passed / latest.problems if latest is not None and latest.problems else None
    # A newer coordinator may be in a phase that this build has no name for.
    known = answer.phase in control_pb2.Phase.values()
    return Progress(
        time=now,
        phase=control_pb2.Phase.Name(answer.phase if known else control_pb2.PHASE_UNSPECIFIED),
        message=answer.message,
        incarnation=answer.incarnation,
        iteration=answer.iteration,
        total_iterations=answer.total_iterations,
        epoch=answer.epoch,
        train_pass_rate=answer.train_pass_rate,
        eval_accuracy=accuracy,
        replay_buffer_size=answer.replay_buffer_size,
        last_iteration_seconds=answer.last_iteration_seconds,
        estimated_remaining_seconds=answer.estimated_remaining_seconds,
        workers_connected=answer.workers_connected,
        workers_caught_up=answer.workers_caught_up,
        journal_hash=answer.journal_hash,
        weight_digest=answer.weight_digest,
        stage=answer.stage,
        notes=tuple(answer.notes),
        stages=answer.stages,
    )


def _essence(progress: Progress) -> Progress:
    """What is worth a new pass: not the time of the answer, nor estimates."""
    return replace(progress, time=datetime.min, estimated_remaining_seconds=0.0, last_iteration_seconds=0.0)


def _address(pod: Manifest, port: int) -> str | None:
    """Where a running coordinator listens: its pod's own address, so that no DNS is needed."""
    status = pod.get("status") or {}
    address: Any = status.get("podIP")
    if labels(pod).get("dartes.dev/role") != "coordinator" or status.get("phase") != "Running" or not address:
        return None
    if metadata(pod).get("deletionTimestamp"):
        return None
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _open(address: str, credentials: Credentials) -> grpc.aio.Channel:
    return grpc.aio.secure_channel(
        address,
        grpc.ssl_channel_credentials(
            root_certificates=credentials.authority,
            private_key=credentials.key,
            certificate_chain=credentials.certificate,
        ),
        options=CLIENT_OPTIONS,
    )
