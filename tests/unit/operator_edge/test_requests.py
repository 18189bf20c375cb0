"""What a whole start costs the API server, and what a bad template leaves there, with the real plan."""

import copy
from datetime import timedelta
from typing import Any

from dartes_operator.api import Api
from dartes_operator.cache import Cache
from dartes_operator.events import EventWriter
from dartes_operator.executor import Executor
from dartes_operator.freshness import Freshness
from dartes_operator.kinds import Key
from dartes_operator.metrics import Metrics
from dartes_operator.queue import WorkQueue
from dartes_operator.reconcile import Reconciler
from dartes_operator.status_writer import StatusWriter

from ..operator_plan.kit import DEFAULTS, START, job
from .kit import FakeServer, with_server

KEY = Key("lab", "addition")
JOB_PATH = "/apis/dartes.dev/v1alpha1/namespaces/lab/dartesjobs/addition"
PODS = "/api/v1/namespaces/lab/pods/"


class Server(FakeServer):
    """One that never gives a uid twice."""

    def put(self, plural: str, manifest: dict[str, Any], prefix: str = "/api/v1") -> dict[str, Any]:
        manifest["metadata"].setdefault("uid", f"uid-{self.version}")
        return super().put(plural, manifest, prefix)


class Scene:
    """A job of a coordinator and four workers, and one hand that passes over it when the test says so."""

    def __init__(self, api: Api, server: FakeServer) -> None:
        self.server = server
        self.cache = Cache()
        self.now = 0.0
        self._put("dartesjobs", job(workers={"replicas": 4}), "/apis/dartes.dev/v1alpha1")
        metrics = Metrics()
        self._reconciler = Reconciler(
            api,
            self.cache,
            WorkQueue(lambda: self.now, lambda: 1.0),
            Executor(api, self.cache, lambda: self.now),
            StatusWriter(api, self.cache, metrics, lambda: self.now),
            EventWriter(api, "pod", lambda: self.now, lambda: START),
            metrics,
            DEFAULTS,
            lambda: START + timedelta(seconds=self.now),
            lambda: 0.5,
            Freshness(api, self.cache, self._list, lambda: self.now).ensure,
        )

    async def _list(self, kind: str, namespace: str) -> None:
        raise AssertionError(f"a new job needs no list of {kind} in {namespace}")

    async def step(self) -> None:
        """A second passes, and then the hand passes over the job."""
        self.now += 1.0
        await self._reconciler.reconcile(KEY)

    async def settle(self) -> None:
        """Pass after pass until one asks nothing."""
        for _ in range(20):
            before = len(self.server.calls)
            await self.step()
            self._tell_of_deletions()
            if before == len(self.server.calls):
                return
        raise AssertionError("each pass asks for something")

    def _tell_of_deletions(self) -> None:
        found = self.cache.observe(KEY)
        assert found is not None
        there = {one["metadata"]["uid"] for one in self.server.objects.values()}
        for manifest in (*found[1].pods, *found[1].config_maps):
            if manifest["metadata"]["uid"] not in there:
                self.cache.remove(manifest)

    def edit(self, **spec: Any) -> None:
        """Somebody changes the spec."""
        manifest = copy.deepcopy(self.server.objects[JOB_PATH])
        manifest["metadata"]["generation"] += 1
        manifest["spec"].update(spec)
        self._put("dartesjobs", manifest, "/apis/dartes.dev/v1alpha1")

    def run_pods(self, *, ready: bool = True) -> list[dict[str, Any]]:
        """The pods as they are once their containers run."""
        time = (START + timedelta(seconds=self.now)).strftime("%Y-%m-%dT%H:%M:%SZ")
        kinds = {"PodScheduled": True, "PodReadyToStartContainers": True, "Ready": ready}
        conditions = [
            {"type": kind, "status": str(value), "lastTransitionTime": time} for kind, value in kinds.items()
        ]
        status = {"phase": "Running", "startTime": time, "conditions": conditions}
        return [
            {**copy.deepcopy(pod), "status": status}
            for path, pod in self.server.objects.items()
            if path.startswith(PODS)
        ]

    def tell(self, pod: dict[str, Any]) -> None:
        """A watch tells of the pod's new state."""
        self._put("pods", pod)

    def _put(self, plural: str, manifest: dict[str, Any], prefix: str = "/api/v1") -> None:
        self.cache.put(copy.deepcopy(self.server.put(plural, manifest, prefix)))

    @property
    def status(self) -> dict[str, Any]:
        """The job's status as written."""
        status: dict[str, Any] = self.server.objects[JOB_PATH]["status"]
        return status

    def condition(self, kind: str) -> dict[str, Any]:
        """A condition as written."""
        return next(entry for entry in self.status["conditions"] if entry["type"] == kind)


def test_a_job_of_five_pods_starts_within_thirty_requests() -> None:
    server = Server()

    async def scenario(api: Api) -> None:
        scene = Scene(api, server)
        await scene.settle()
        for ready in (False, True):
            for pod in scene.run_pods(ready=ready):
                scene.tell(pod)
                await scene.step()
        assert scene.status["phase"] == "Running"

    with_server(server, scenario)
    assert [call.name for call in server.calls if "dryRun" in call.query] == [
        "addition-coordinator",
        "addition-worker-0",
    ]
    assert len(server.calls) <= 30, [f"{call.method} {call.name}" for call in server.calls]


def test_a_start_with_a_bad_template_leaves_nothing_behind_and_says_why() -> None:
    server = Server()
    server.refuse("POST", "addition-worker-", 403, "violates PodSecurity", times=2)

    async def scenario(api: Api) -> None:
        scene = Scene(api, server)
        await scene.step()
        assert list(server.objects) == [
            JOB_PATH,
            *(path for path in server.objects if "/events/" in path),
        ]
        accepted = scene.condition("Accepted")
        assert (accepted["status"], accepted["reason"]) == ("False", "PodTemplateInvalid")
        assert accepted["message"] == "Pod addition-worker-0: violates PodSecurity"
        assert "startTime" not in scene.status
        events = [call.body["reason"] for call in server.calls if call.path.endswith("/events")]
        assert not {"CoordinatorCreated", "WorkersCreated"} & set(events)
        await scene.settle()
        assert len([path for path in server.objects if path.startswith(PODS)]) == 5

    with_server(server, scenario)


def test_a_resume_with_a_bad_template_makes_nothing_until_it_is_mended() -> None:
    server = Server()

    async def scenario(api: Api) -> None:
        scene = Scene(api, server)
        await scene.settle()
        scene.edit(suspend=True)
        await scene.settle()
        assert scene.status["phase"] == "Suspended"
        server.refuse("POST", "addition-coordinator", 403, "violates PodSecurity", times=1)
        scene.edit(suspend=False, workers={"replicas": 3, "gpusPerWorker": 0, "threads": 3})
        await scene.step()
        assert scene.condition("Accepted")["reason"] == "PodTemplateInvalid"
        assert not [path for path in server.objects if path.startswith(PODS)]
        await scene.settle()
        assert len([path for path in server.objects if path.startswith(PODS)]) == 4
        hashes = {
            pod["metadata"]["annotations"]["dartes.dev/template-hash"]
            for path, pod in server.objects.items()
            if path.startswith(PODS)
        }
        assert hashes == {scene.status["templateHash"]}
        assert (
            f"/api/v1/namespaces/lab/configmaps/addition-run-{scene.status['templateHash']}" in server.objects
        )

    with_server(server, scenario)
