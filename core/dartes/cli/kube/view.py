"""`kubectl dartes status` as data and as lines: from the job, its pods and events to what an engineer reads.

Pure. Times come in; nothing is asked of the cluster here.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from dartes.cli.kube import advice
from dartes.cli.kube.names import RECONCILE
from dartes.cli.kube.objects import Manifest, Pod, at, in_order, moment

EVENTS_SHOWN: Final = 5
PODS_SHOWN: Final = 12
STALE_SECONDS: Final = 90
"""Progress older than this is said to be old: it is written every 10 s while all is well."""

WITHOUT_PODS: Final = ("Suspended", "Succeeded", "Failed")
FINISHED: Final = ("Succeeded", "Failed")


def status_view(
    job: Manifest, pods: Sequence[Pod], events: Sequence[Manifest], now: datetime
) -> dict[str, Any]:
    """The status as a JSON object with the same keys in every phase; unknown values are null."""
    status = at(job, "status") or {}
    name = str(at(job, "metadata", "name"))
    phase = str(status.get("phase") or "Unseen")
    conditions = [c for c in status.get("conditions") or [] if isinstance(c, Mapping)]
    found = list(advice.problems(conditions, phase not in WITHOUT_PODS))
    last_failure = status.get("lastFailure")
    progress = status.get("progress") or {}
    view = {
        "name": name,
        "namespace": at(job, "metadata", "namespace"),
        "phase": phase,
        "message": status.get("message"),
        "age_seconds": _since(at(job, "metadata", "creationTimestamp"), now),
        "running_seconds": _since(status.get("startTime"), moment(status.get("completionTime")) or now),
        "iteration": progress.get("iteration"),
        "total_iterations": progress.get("totalIterations") or at(job, "spec", "es", "iterations"),
        "epoch": progress.get("epoch"),
        "train_pass_rate": progress.get("trainPassRate"),
        "eval_accuracy": progress.get("evalAccuracy"),
        "last_iteration_seconds": progress.get("lastIterationSeconds"),
        "estimated_remaining_seconds": progress.get("estimatedRemainingSeconds"),
        "progress_age_seconds": _since(progress.get("lastUpdateTime"), now),
        "coordinator": dict(status.get("coordinator") or {}),
        "workers": dict(status.get("workers") or {}),
        "failures": dict(status.get("failures") or {}),
        "last_failure": last_failure,
        "checkpoint": status.get("checkpoint"),
        "export": status.get("export"),
        "problems": [_condition(c, now) for c in found],
        "pods": [_pod(pod, now) for pod in in_order(pods)],
        "events": [_event(e, now) for e in _newest_events(events)],
    }
    steps = advice.next_steps(name, found, phase, pods, at(status, "export", "uri"))
    silent = list(_unseen(job, conditions, view["age_seconds"]))
    view["next"] = silent + [step for step in steps if step != "nothing" or not silent]
    return view


def status_lines(view: Mapping[str, Any]) -> Iterator[str]:
    """The status for people: where it stands, what is wrong, what happened last, what to do."""
    ran = view["running_seconds"]
    took = "" if ran is None else f" {'after' if view['phase'] in FINISHED else 'for'} {age(ran)}"
    yield f"{view['name']} in {view['namespace']}: {view['phase']}{took}"
    if view["message"] and not view["problems"]:
        yield f"  {view['message']}"
    yield from _field("progress", ", ".join(_progress(view)))
    yield from _field("coordinator", ", ".join(_coordinator(view)))
    yield from _field("workers", ", ".join(_workers(view["workers"])))
    yield from _field("losses", ", ".join(_losses(view["failures"])))
    if isinstance(view["last_failure"], Mapping):
        yield from _last_failure(view)
    if isinstance(view["export"], Mapping) and view["export"].get("uri"):
        yield from _field("model", str(view["export"]["uri"]))
    if view["problems"]:
        yield "not as it should be"
    for problem in view["problems"]:
        since = "" if problem["seconds"] is None else f" for {age(problem['seconds'])}"
        yield f"  {problem['type']} is {problem['status']}{since}: {problem['reason']}"
        yield from _indented(problem["message"], 6)
    yield from _pod_lines(view["pods"])
    if view["events"]:
        yield "newest events"
    for event in view["events"]:
        times = f" ({event['count']} times)" if event["count"] > 1 else ""
        when = "?" if event["seconds"] is None else age(event["seconds"])
        first, *more = str(event["message"]).splitlines() or [""]
        yield f"  {when:>6} ago  {event['type']} {event['reason']} {event['object']}{times}: {first}"
        yield from _indented("\n".join(more), 12)
    yield "next"
    for step in view["next"]:
        yield f"  {step}"


def age(seconds: float) -> str:
    """Seconds as Kubernetes shows them: 42s, 3m7s, 2h15m, 3d4h."""
    whole = max(0, round(seconds))
    if whole < 120:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60}s" if whole < 600 else f"{whole // 60}m"
    if whole < 172_800:
        return f"{whole // 3600}h{whole % 3600 // 60}m"
    return f"{whole // 86_400}d{whole % 86_400 // 3600}h"


def _progress(view: Mapping[str, Any]) -> Iterator[str]:
    if view["iteration"] is None:
        yield "no iteration yet"
        return
    total = view["total_iterations"]
    yield f"{view['iteration']}{'' if total is None else f' of {total}'} iterations"
    if view["epoch"] is not None:
        yield f"epoch {view['epoch']}"
    if view["train_pass_rate"] is not None:
        yield f"pass rate {view['train_pass_rate']:.3f}"
    if view["eval_accuracy"] is not None:
        yield f"evaluation {100 * view['eval_accuracy']:.1f} %"
    if view["phase"] in FINISHED:
        return
    if view["last_iteration_seconds"]:
        yield f"{view['last_iteration_seconds']:.1f} s for the last one"
    if view["estimated_remaining_seconds"]:
        yield f"{age(view['estimated_remaining_seconds'])} left"
    old = view["progress_age_seconds"]
    if old is not None and old > STALE_SECONDS and view["phase"] not in WITHOUT_PODS:
        yield f"as of {age(old)} ago"


def _coordinator(view: Mapping[str, Any]) -> Iterator[str]:
    found = view["coordinator"]
    if not found or view["phase"] in WITHOUT_PODS:
        return
    yield f"{found.get('podName') or 'no pod'} {'ready' if found.get('ready') else 'not ready'}"
    if found.get("incarnation"):
        yield f"incarnation {found['incarnation']}"
    if found.get("restarts"):
        yield f"{found['restarts']} restarts"


def _workers(found: Mapping[str, Any]) -> Iterator[str]:
    if not found:
        return
    yield f"{found.get('ready') or 0} of {found.get('desired') or 0} ready"
    for key, word in (("pending", "pending"), ("draining", "draining"), ("caughtUp", "caught up")):
        if found.get(key):
            yield f"{found[key]} {word}"


def _losses(found: Mapping[str, Any]) -> Iterator[str]:
    words = {"coordinator": "coordinator failures", "worker": "worker failures", "disruptions": "disruptions"}
    for key, word in words.items():
        if isinstance(found.get(key), int) and found[key]:
            yield f"{found[key]} {word}"


def _last_failure(view: Mapping[str, Any]) -> Iterator[str]:
    found = view["last_failure"]
    code = "" if found.get("exitCode") is None else f", exit code {found['exitCode']}"
    when = f", {found['time']}" if found.get("time") else ""
    yield from _field(
        "last failure", f"{found.get('pod') or found.get('role')}: {found.get('reason')}{code}{when}"
    )
    yield from _indented(str(found.get("message") or ""), 16)


def _pod_lines(pods: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The pods that are not simply running, then as many of the others as there is room for."""
    if not pods:
        return
    unwell = [pod for pod in pods if not pod["ready"]]
    shown = {id(pod) for pod in (unwell + [pod for pod in pods if pod["ready"]])[:PODS_SHOWN]}
    width = max(len(str(pod["name"])) for pod in pods)
    yield "pods"
    for pod in pods:
        if id(pod) not in shown:
            continue
        word = "Ready" if pod["ready"] else pod["state"]
        code = "" if pod["exit_code"] in (None, 0) else f" (exit code {pod['exit_code']})"
        leaving = ", leaving" if pod["leaving"] else ""
        old = "" if pod["age_seconds"] is None else age(pod["age_seconds"])
        yield f"  {pod['name']:<{width}}  {word}{code}{leaving}  {old}  {pod['node'] or 'no node'}"
    if len(pods) > len(shown):
        yield f"  and {len(pods) - len(shown)} more that are Ready"


def _field(label: str, text: str) -> Iterator[str]:
    if text:
        yield f"  {label:<12}  {text}"


def _indented(text: str, columns: int) -> Iterator[str]:
    for line in text.splitlines():
        if line.strip():
            yield " " * columns + line.strip()


def _unseen(job: Manifest, conditions: Sequence[object], old: float | None) -> Iterator[str]:
    """Why nothing may happen to a job although nothing says that anything is wrong."""
    if at(job, "metadata", "annotations", RECONCILE) == "disabled":
        yield f"remove the annotation {RECONCILE}=disabled: the operator leaves the job alone until then"
        return
    managed = at(job, "spec", "managedBy")
    if managed not in (None, "dartes.dev/operator"):
        yield f"spec.managedBy is {managed!r}: that controller acts on this job, not the operator of DART-ES"
        return
    wanted = at(job, "metadata", "generation")
    # What stands in a job's way keeps the status' own number back; its conditions say that it was looked at.
    seen = [
        number
        for part in (at(job, "status"), *conditions)
        if isinstance(part, Mapping) and isinstance(number := part.get("observedGeneration"), int)
    ]
    behind = isinstance(wanted, int) and bool(seen) and max(seen) < wanted
    if (not conditions or behind) and (old or 0) > 15:
        what = "the newest change of the job" if behind else "the job"
        yield (
            f"the operator has not looked at {what}: see whether it runs and watches this namespace: "
            "kubectl get pods -A -l app.kubernetes.io/name=dartes,app.kubernetes.io/component=operator"
        )


def _condition(condition: Manifest, now: datetime) -> dict[str, Any]:
    return {
        "type": str(condition.get("type")),
        "status": str(condition.get("status")),
        "reason": str(condition.get("reason") or ""),
        "message": str(condition.get("message") or ""),
        "seconds": _since(condition.get("lastTransitionTime"), now),
    }


def _pod(pod: Pod, now: datetime) -> dict[str, Any]:
    return {
        "name": pod.name,
        "role": pod.role,
        "phase": pod.phase,
        "ready": pod.ready,
        "state": pod.state,
        "message": pod.message,
        "exit_code": pod.exit_code,
        "node": pod.node,
        "leaving": pod.leaving,
        "age_seconds": None if pod.created is None else (now - pod.created).total_seconds(),
    }


def _newest_events(events: Sequence[Manifest]) -> list[Manifest]:
    dated = sorted(events, key=lambda event: _event_time(event) or "")
    return list(reversed(dated[-EVENTS_SHOWN:]))


def _event_time(event: Manifest) -> str:
    for path in (("series", "lastObservedTime"), ("lastTimestamp",), ("eventTime",), ("firstTimestamp",)):
        found = at(event, *path)
        if found:
            return str(found)
    return str(at(event, "metadata", "creationTimestamp") or "")


def _event(event: Manifest, now: datetime) -> dict[str, Any]:
    count = at(event, "series", "count") or at(event, "count") or 1
    return {
        "type": str(event.get("type") or ""),
        "reason": str(event.get("reason") or ""),
        "object": str(at(event, "involvedObject", "name") or ""),
        "message": str(event.get("message") or ""),
        "count": count if isinstance(count, int) else 1,
        "seconds": _since(_event_time(event), now),
    }


def _since(text: object, now: datetime) -> float | None:
    found = moment(text)
    return None if found is None else max(0.0, (now - found).total_seconds())
