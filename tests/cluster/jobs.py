"""A job in a cluster as tests handle it: apply, disturb, wait for what must follow, read what came out.

It talks to the API server as a user would and knows nothing about how the operator works. What waits has a
deadline; what is read from a pod is read by exec.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.stream import stream

from dartes.spec import load_job
from dartes.spec.dump import resolved_fields

from .. import waiting

GROUP, VERSION, PLURAL = "dartes.dev", "v1alpha1", "dartesjobs"
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
DISTURBED_ENGINE = Path(__file__).with_name("disturbed_engine.py")
RUN_FOLDER = "/var/lib/dartes/run"
LOOK_SECONDS = 0.2
"""How often a wait asks the API server: often enough for a figure in seconds, cheap enough for two cores."""

Found = TypeVar("Found")
Object = dict[str, Any]


class Api:
    """The API server as one user sees it."""

    def __init__(self, kubeconfig: Path, context: str | None = None) -> None:
        self.client = config.new_client_from_config(str(kubeconfig), context=context)
        self.core = client.CoreV1Api(self.client)
        self.custom = client.CustomObjectsApi(self.client)

    def pods(self, namespace: str, selector: str = "") -> list[Object]:
        """Pods as plain objects, by name."""
        answer = self.core.list_namespaced_pod(namespace, label_selector=selector, _preload_content=False)
        items: list[Object] = json.loads(answer.data)["items"]
        return sorted(items, key=lambda pod: str(pod["metadata"]["name"]))

    def objects(self, kind: str, namespace: str) -> list[Object]:
        """Objects of a core kind by its list method's name: config_map, secret, service, ..."""
        answer = getattr(self.core, f"list_namespaced_{kind}")(namespace, _preload_content=False)
        items: list[Object] = json.loads(answer.data)["items"]
        return items

    def execute(self, namespace: str, pod: str, container: str, *command: str) -> str:
        """What a command printed in a running container (standard output and error)."""
        # `stream` swaps a method of the client it is given, so it gets one of its own.
        core = client.CoreV1Api(client.ApiClient(self.client.configuration))
        answer: str = stream(
            core.connect_get_namespaced_pod_exec,
            pod,
            namespace,
            container=container,
            command=list(command),
            stdout=True,
            stderr=True,
            stdin=False,
            tty=False,
        )
        return answer


def until(condition: Callable[[], Found | None], what: str, seconds: float) -> Found:
    """Ask until the answer is true and return it; AssertionError after `seconds`."""
    return waiting.until(condition, what, seconds, LOOK_SECONDS)


def spec_of(example: str = "addition", **changes: Any) -> Object:
    """The spec of a job in examples/ with fields changed; `es__iterations=3` sets `es.iterations`."""
    loaded = load_job(EXAMPLES / f"{example}.yaml")
    document: Object = json.loads(json.dumps(resolved_fields(loaded.job, loaded.base_dir)))
    spec: Object = document["spec"]
    for path, value in changes.items():
        *parents, last = path.split("__")
        inner = spec
        for name in parents:
            inner = inner.setdefault(name, {})
        if value is None:
            inner.pop(last, None)
        else:
            inner[last] = value
    return spec


def make_disturbed_engine(api: Api, namespace: str) -> None:
    """The ConfigMap with that engine."""
    body = {
        "metadata": {"name": "disturbed-engine"},
        "data": {DISTURBED_ENGINE.name: DISTURBED_ENGINE.read_text(encoding="utf-8")},
    }
    api.core.create_namespaced_config_map(namespace, body)


def with_disturbed_engine(workers: Object, pace_seconds: float) -> Object:
    """The `workers` of a job with the engine of disturbed_engine.py, from a ConfigMap of its name."""
    return {
        **workers,
        "env": [
            {"name": "PYTHONPATH", "value": "/test"},
            {"name": "DARTES_ENGINE", "value": "disturbed_engine:load"},
            {"name": "DARTES_TEST_PACE_SECONDS", "value": str(pace_seconds)},
        ],
        "volumes": [{"name": "test", "configMap": {"name": "disturbed-engine"}}],
        "volumeMounts": [{"name": "test", "mountPath": "/test", "readOnly": True}],
    }


def manifest(name: str, namespace: str, spec: Mapping[str, Any]) -> Object:
    """A DartESJob."""
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "DartESJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": dict(spec),
    }


class Job:
    """One DartESJob."""

    def __init__(self, api: Api, namespace: str, name: str) -> None:
        self.api = api
        self.namespace = namespace
        self.name = name

    @classmethod
    def create(cls, api: Api, namespace: str, name: str, spec: Mapping[str, Any]) -> "Job":
        """Create it; what the schema refuses raises ApiException."""
        api.custom.create_namespaced_custom_object(
            GROUP, VERSION, namespace, PLURAL, manifest(name, namespace, spec)
        )
        return cls(api, namespace, name)

    def get(self) -> Object:
        """The object as it is."""
        found: Object = self.api.custom.get_namespaced_custom_object(
            GROUP, VERSION, self.namespace, PLURAL, self.name
        )
        return found

    def exists(self) -> bool:
        """Whether the API server still has it."""
        try:
            self.get()
        except ApiException as error:
            if error.status == 404:
                return False
            raise
        return True

    @property
    def status(self) -> Object:
        """Its status, empty before the operator has looked at it."""
        status: Object = self.get().get("status", {})
        return status

    def patch(self, spec: Mapping[str, Any]) -> None:
        """Merge into the spec."""
        self.api.custom.patch_namespaced_custom_object(
            GROUP, VERSION, self.namespace, PLURAL, self.name, {"spec": dict(spec)}
        )

    def delete(self) -> None:
        """Delete it and return at once."""
        self.api.custom.delete_namespaced_custom_object(
            GROUP, VERSION, self.namespace, PLURAL, self.name, body={}
        )

    def condition(self, kind: str) -> Object:
        """A condition by type, empty where it is not set."""
        return next((c for c in self.status.get("conditions", []) if c["type"] == kind), {})

    def wait_condition(
        self, kind: str, status: str = "True", reason: str | None = None, seconds: float = 120.0
    ) -> Object:
        """Wait for a condition; fails at once where the job has failed and that was not asked for."""

        def holds() -> Object | None:
            found = self.condition(kind)
            if kind != "Failed":
                failed = self.condition("Failed")
                assert failed.get("status") != "True", f"{self.name} failed: {failed}"
            right = found.get("status") == status and reason in (None, found.get("reason"))
            return found if right else None

        wanted = f"{kind}={status}" + (f" ({reason})" if reason else "")
        try:
            return until(holds, f"{self.name}: {wanted}", seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.describe()}") from None

    def wait_complete(self, seconds: float = 300.0) -> Object:
        """Wait for the end; returns the last status."""
        self.wait_condition("Complete", seconds=seconds)
        return self.status

    @property
    def iteration(self) -> int:
        """Committed iterations, as the operator last wrote them."""
        return int(self.status.get("progress", {}).get("iteration", 0))

    def pods(self, role: str) -> list[Object]:
        """Its pods of a role, ended ones included."""
        return self.api.pods(self.namespace, f"dartes.dev/job-name={self.name},dartes.dev/role={role}")

    def live(self, role: str) -> list[Object]:
        """Pods of a role that have neither ended nor been told to go."""
        return [pod for pod in self.pods(role) if is_live(pod)]

    def ready(self, role: str) -> list[Object]:
        """Live pods of a role that say they are ready."""
        return [pod for pod in self.live(role) if is_ready(pod)]

    def wait_ready(self, role: str, count: int, seconds: float = 90.0) -> list[Object]:
        """Wait until exactly so many pods of a role live, all ready."""

        def there() -> list[Object] | None:
            ready = self.ready(role)
            return ready if len(ready) == count == len(self.live(role)) else None

        try:
            return until(there, f"{self.name}: {count} ready {role} pods", seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.describe()}") from None

    def rows(self) -> list[Object]:
        """What the coordinator has written of each committed iteration; empty while none can be asked."""
        coordinators = self.live("coordinator")
        if not coordinators:
            return []
        try:
            text = self.api.execute(
                self.namespace,
                coordinators[0]["metadata"]["name"],
                "coordinator",
                "cat",
                f"{RUN_FOLDER}/metrics.jsonl",
            )
        except ApiException:
            return []  # not up yet
        lines = text.splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}\n")]

    def wait_rows(self, count: int, seconds: float = 90.0) -> list[Object]:
        """Wait until so many iterations are committed; returns all of them."""

        def there() -> list[Object] | None:
            rows = self.rows()
            return rows if len(rows) >= count else None

        try:
            return until(there, f"{self.name}: {count} committed iterations", seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.describe()}") from None

    def events(self) -> list[Object]:
        """Events about the job, oldest first."""
        found = self.api.objects("event", self.namespace)
        own = [event for event in found if event["involvedObject"].get("name") == self.name]
        return sorted(own, key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime")))

    def describe(self) -> str:
        """Everything that helps to see why a wait failed."""
        pods = [
            f"{pod['metadata']['name']}: {pod['status'].get('phase')} "
            f"{json.dumps(pod['status'].get('containerStatuses', pod['status'].get('conditions')))[:600]}"
            for role in ("coordinator", "worker", "export")
            for pod in self.pods(role)
        ]
        events = [f"{event['reason']}: {event['message'][:300]}" for event in self.events()[-12:]]
        status = json.dumps(self.status, indent=1) if self.exists() else "(gone)"
        return "\n".join(["status:", status, "pods:", *pods, "events:", *events])


def is_live(pod: Mapping[str, Any]) -> bool:
    """Whether a pod has neither ended nor been told to go."""
    return not pod["metadata"].get("deletionTimestamp") and pod["status"].get("phase") not in (
        "Succeeded",
        "Failed",
    )


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Whether a pod says that it is ready."""
    conditions = pod["status"].get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def uid(pod: Mapping[str, Any]) -> str:
    """What tells a pod from its successor of the same name."""
    return str(pod["metadata"]["uid"])
