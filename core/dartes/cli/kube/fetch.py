"""Getting a job's bundle out of its cluster: from the running coordinator, or by a pod that reads its volume.

A pod made here is deleted again whatever happens, and ends by itself where even that is prevented.
"""

import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from dartes.cli.kube.bundle import HEADER_BYTES, MOST_BYTES, Bundle
from dartes.cli.kube.helper_pod import claim_of, default_claim, pinned, reader_pod
from dartes.cli.kube.kubectl import Kubectl, NotFoundError
from dartes.cli.kube.names import COMPONENT, COORDINATOR, READER, RUN_DIR, of_job
from dartes.cli.kube.objects import Manifest, at, items, newest, pod_of
from dartes.cli.kube.status import NoJobError, job_named
from dartes.errors import ConfigurationError, DartesError, TransientError

READY_SECONDS: Final = 120
"""How long a helper pod may take to start: its image is on the nodes already, its volume may have to move."""

TRANSFER_SECONDS: Final = 300.0

BUNDLE_PROGRAM: Final = ("python", "-m", "dartes.cli.kube.bundle", "--run-dir", RUN_DIR)

Say = Callable[[str], None]


@dataclass(frozen=True)
class Fetched:
    """A job's bundle, and the job and its pinned run as they were read on the way."""

    bundle: Bundle
    job: Manifest
    run: Manifest | None


def fetch(kubectl: Kubectl, name: str, say: Say) -> Fetched:
    """Get the bundle of a job.

    Raises
    ------
    ConfigurationError
        No such job, nothing to export yet, or rights are missing.
    TransientError
        The coordinator is just being replaced, the helper pod doesn't start, or the cluster is away.
    """
    try:
        job = job_named(kubectl, name)
    except NoJobError as error:
        claim = default_claim(name)
        if not _is_kept(kubectl, claim):
            raise
        raise ConfigurationError(
            f"{error}. The volume claim {claim} of a job that has gone is still there: apply a new job of "
            f"that spec with checkpoint.resumeFrom.claimName: {claim}, which takes the run up where it was, "
            "and export that one"
        ) from error
    run = _run_of(kubectl, job)
    manifests = items(kubectl.objects("pods", "-l", of_job(name, COORDINATOR)))
    pod = newest([pod_of(manifest) for manifest in manifests])
    phase = str(at(job, "status", "phase") or "Unseen")
    if pod is not None and pod.phase == "Running" and not pod.leaving:
        raw = _exec(kubectl, pod.name, COORDINATOR)
    elif phase in ("Succeeded", "Failed", "Suspended") or (pod is not None and pod.phase == "Succeeded"):
        of_pod = next((m for m in manifests if pod and at(m, "metadata", "name") == pod.name), None)
        template = pinned(run, COORDINATOR) or of_pod
        if template is None:
            raise ConfigurationError(
                f"{name}: neither its coordinator's pod nor its run ConfigMap is there, so its volume "
                f"{claim_of(job)} can't be read; mount that claim in a pod of yours and copy {RUN_DIR}"
            )
        say(f"reading the volume {claim_of(job)} by a short-lived pod")
        made = reader_pod(job, template, f"{name}-reader-{secrets.token_hex(3)}", claim_of(job))
        with helper(kubectl, made) as reader:
            raw = _exec(kubectl, reader, READER)
    else:
        raise TransientError(
            f"{name} is {phase} and its coordinator does not run now, so nobody may read its volume; try "
            f"again in a moment, or see kubectl dartes status {name}"
        )
    return Fetched(Bundle.decode(raw), job, run)


@contextmanager
def helper(kubectl: Kubectl, manifest: dict[str, Any]) -> Iterator[str]:
    """A pod that is ready within the block and gone after it; gives its name.

    Raises
    ------
    TransientError
        It doesn't start in time; says what holds it up.
    """
    name = str(manifest["metadata"]["name"])
    try:
        kubectl.run("create", "-f", "-", given=json.dumps(manifest).encode("utf-8"))
        _wait_until_ready(kubectl, name)
        yield name
    finally:
        _delete(kubectl, name)


def _wait_until_ready(kubectl: Kubectl, name: str) -> None:
    try:
        kubectl.run(
            "wait",
            "--for=condition=Ready",
            f"pod/{name}",
            f"--timeout={READY_SECONDS}s",
            seconds=READY_SECONDS + 15,
        )
    except DartesError as error:
        try:
            pod = pod_of(kubectl.objects("pod", name))
            selector = f"involvedObject.kind=Pod,involvedObject.name={name}"
            warnings = [
                str(at(event, "message"))
                for event in items(kubectl.objects("events", f"--field-selector={selector}"))
                if at(event, "type") == "Warning"
            ]
        except DartesError:
            raise error from None
        why = pod.message or "; ".join(warnings[-1:]) or "no reason is known"
        raise TransientError(
            f"the pod {name} did not start within {READY_SECONDS} s: {pod.state}: {why}"
        ) from error


def _delete(kubectl: Kubectl, name: str) -> None:
    """Delete a helper pod; it may not exist, and it ends by itself, so nothing is raised."""
    try:
        kubectl.run("delete", "pod", name, "--now", "--ignore-not-found", "--wait=false")
    except DartesError:
        return


def _exec(kubectl: Kubectl, pod: str, container: str) -> bytes:
    try:
        return kubectl.run(
            "exec",
            pod,
            f"--container={container}",
            "--",
            *BUNDLE_PROGRAM,
            seconds=TRANSFER_SECONDS,
            most_bytes=MOST_BYTES + HEADER_BYTES,
        )
    except NotFoundError as error:
        raise TransientError(f"the pod {pod} has just gone ({error}); try again") from error


def _is_kept(kubectl: Kubectl, claim: str) -> bool:
    """Whether a claim is there to stay; a claim that can't be seen changes nothing about a missing job."""
    try:
        found = kubectl.objects("pvc", claim)
    except DartesError:
        return False
    return at(found, "metadata", "deletionTimestamp") is None


def _run_of(kubectl: Kubectl, job: Manifest) -> Manifest | None:
    """The newest run ConfigMap of a job, with its pinned pods; None where it is missing or hidden."""
    name = str(at(job, "metadata", "name"))
    try:
        found = items(kubectl.objects("configmaps", "-l", f"{of_job(name)},{COMPONENT}=run"))
    except ConfigurationError:
        return None
    pinned_hash = str(at(job, "status", "templateHash") or "")
    named = [m for m in found if at(m, "metadata", "name") == f"{name}-run-{pinned_hash}"]
    by_age = sorted(found, key=lambda m: str(at(m, "metadata", "creationTimestamp") or ""))
    return named[0] if named else (by_age[-1] if by_age else None)
