"""Tenants of one cluster: two releases side by side, each blind to the other, and closed networks.

What policies let through is asked of `network_rules`, with the policies, labels and addresses that the API
server has of real objects, since the test cluster enforces none. Pods are on fake nodes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pytest

from .audit import AuditLog
from .held import CommandFailedError, Document, HeldCluster
from .jobs import Job, until
from .kwok_jobs import Kwok, spec_on_kwok
from .lacking import lacking
from .network_rules import TCP, Network, Peer
from .release import CHART, Release
from .releases import Releases

pytestmark = pytest.mark.usefixtures("alone")

GRPC, HTTP = 7443, 8080
METADATA = ("169.254.169.254", "169.254.170.2", "169.254.170.23", "fd00:ec2::254", "fe80::1")


@dataclass(frozen=True)
class Tenant:
    """A namespace, the release that looks after it, and its jobs."""

    namespace: str
    release: Release
    jobs: Mapping[str, Job] = field(default_factory=dict)

    @property
    def account(self) -> str:
        """The operator's user name."""
        pod = self.release.operator_pod()
        return f"system:serviceaccount:{self.release.namespace}:{pod['spec']['serviceAccountName']}"


@pytest.fixture(scope="module")
def tenants(cluster: HeldCluster, releases: Releases, kwok: Kwok) -> Iterator[tuple[Tenant, Tenant]]:
    """Two tenants with jobs of the same names, of which one is closed strictly."""
    namespaces = [cluster.make_namespace(f"tenant-{name}") for name in ("a", "b")]
    made = []
    for namespace in namespaces:
        release = releases(namespace, kwok=True)
        jobs = {
            name: Job.create(release.api, namespace, name, spec_on_kwok(**changes))
            for name, changes in (("same", {}), ("strict", {"networkPolicy__mode": "Strict"}))
        }
        made.append(Tenant(namespace, release, jobs))
    for tenant in made:
        for job in tenant.jobs.values():
            job.wait_ready("worker", 2)
    yield made[0], made[1]
    for namespace in namespaces:
        cluster.delete_namespace(namespace)


@pytest.fixture(scope="module")
def unwatched(cluster: HeldCluster, tenants: tuple[Tenant, Tenant]) -> Iterator[Job]:
    """A job where no release looks, created before anything else is tried."""
    namespace = cluster.make_namespace("tenant-none")
    yield Job.create(tenants[0].release.api, namespace, "same", spec_on_kwok())
    cluster.delete_namespace(namespace)


def asked(cluster: HeldCluster, account: str) -> list[Document]:
    """What a user has asked of the API server, by the audit log."""
    if cluster.audit_log is None:
        lacking("this cluster keeps no audit log that can be read")
    entries = AuditLog(cluster.audit_log).entries(account)
    return [entry for entry in entries if entry["user"]["username"] == account]


def test_each_operator_asks_about_its_own_namespace_and_no_other(
    cluster: HeldCluster, tenants: tuple[Tenant, Tenant], unwatched: Job
) -> None:
    for tenant in tenants:
        found = asked(cluster, tenant.account)
        assert any(entry["verb"] == "create" for entry in found)
        # What is about no object asks which resources there are.
        about = [entry["objectRef"] for entry in found if "objectRef" in entry]
        assert {each.get("namespace") for each in about} == {tenant.namespace}
        refused = [entry for entry in found if entry.get("responseStatus", {}).get("code") == 403]
        assert refused == [], "it has every right that it asks for, and asks for no others"


def test_neither_operator_speaks_of_the_others_jobs(tenants: tuple[Tenant, Tenant]) -> None:
    for tenant, other in (tenants, tenants[::-1]):
        log = tenant.release.operator_log()
        assert tenant.namespace in log
        assert other.namespace not in log


@pytest.mark.parametrize("verb", ["get", "list", "create", "delete"])
def test_an_operator_has_no_right_in_the_others_namespace(tenants: tuple[Tenant, Tenant], verb: str) -> None:
    for tenant, other in (tenants, tenants[::-1]):
        words = ("auth", "can-i", verb, "pods", "--as", tenant.account, "-n")
        assert tenant.release.kubectl(*words, tenant.namespace).strip() == "yes"
        with pytest.raises(CommandFailedError, match="no"):
            tenant.release.kubectl(*words, other.namespace)


def test_a_job_where_nobody_looks_is_left_alone(tenants: tuple[Tenant, Tenant], unwatched: Job) -> None:
    assert unwatched.status == {}
    assert unwatched.api.pods(unwatched.namespace) == []


def is_replaced(job: Job, worker: Document) -> bool:
    """Whether a worker is gone and another has come."""
    live = [pod["metadata"]["uid"] for pod in job.live("worker")]
    return len(live) == 2 and worker["metadata"]["uid"] not in live


@pytest.mark.full
def test_one_tenants_release_goes_without_the_other_noticing(
    cluster: HeldCluster, tenants: tuple[Tenant, Tenant], releases: Releases
) -> None:
    kept, _ = tenants
    namespace = cluster.make_namespace("tenant-c")
    try:
        release = releases(namespace, kwok=True)
        job = Job.create(release.api, namespace, "same", spec_on_kwok())
        first, _ = job.wait_ready("worker", 2)
        release.uninstall()
        own, _ = kept.jobs["same"].wait_ready("worker", 2)
        for pod in (first, own):
            where = pod["metadata"]["namespace"]
            release.kubectl("delete", "pod", pod["metadata"]["name"], "-n", where, "--wait=false")
        until(
            lambda: (
                own["metadata"]["uid"]
                not in {pod["metadata"]["uid"] for pod in kept.jobs["same"].live("worker")}
                and len(kept.jobs["same"].live("worker")) == 2
            ),
            "the other tenant's worker is back",
            30.0,
        )
        assert len(job.live("worker")) == 1, "nobody makes it again"
        assert cluster.find("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/dartesjobs.dartes.dev")
    finally:
        cluster.delete_namespace(namespace)


@pytest.mark.full
def test_a_second_release_that_wants_the_definition_too_is_refused(
    cluster: HeldCluster, tenants: tuple[Tenant, Tenant]
) -> None:
    with pytest.raises(CommandFailedError, match="cannot be imported into the current release"):
        cluster.helm(
            *("install", "second", str(CHART), "--dry-run=server", "--namespace", tenants[1].namespace),
            *("--set", f"watch.namespaces={{{tenants[1].namespace}}}", "--set", "rbac.aggregate=false"),
        )


def test_a_release_of_the_whole_cluster_stands_beside_none(
    cluster: HeldCluster, tenants: tuple[Tenant, Tenant]
) -> None:
    """The first operator that it would meet is named, whichever that is."""
    with pytest.raises(CommandFailedError, match="there is another operator already") as refused:
        cluster.helm(
            *("install", "whole", str(CHART), "--dry-run=server", "--namespace", "default"),
            *("--set", "crds.create=false", "--set", "rbac.aggregate=false"),
        )
    assert "list this release's namespaces in watch.namespaces" in refused.value.words


@pytest.mark.full
def test_a_namespace_that_is_gone_takes_no_other_tenant_of_its_release_along(
    cluster: HeldCluster, releases: Releases, kwok: Kwok
) -> None:
    gone, kept = (cluster.make_namespace(f"tenant-{name}") for name in ("gone", "kept"))
    try:
        release = releases(gone, kept, kwok=True)
        cluster.delete_namespace(gone)
        until(lambda: cluster.find(f"/api/v1/namespaces/{gone}") is None, "the namespace is gone", 60.0)
        release.scale_operator(0)
        release.scale_operator(1)
        job = Job.create(release.api, kept, "same", spec_on_kwok())
        job.wait_ready("worker", 2)
        assert f"namespace {gone} is left out" in release.operator_log()
    finally:
        cluster.delete_namespace(kept)


@dataclass(frozen=True)
class Seen:
    """All pods, policies and namespaces of a cluster at one moment."""

    network: Network
    pods: Mapping[str, Document]
    namespaces: frozenset[str]

    def peer(self, uid: str) -> Peer:
        """A pod as policies see it."""
        return Peer.of(self.pods[uid])

    def of(self, *roles: str, job: str = "") -> list[str]:
        """The pods of the tenants' jobs: of these roles, and of jobs of this name."""
        found = [
            uid
            for uid, pod in self.pods.items()
            if pod["metadata"]["namespace"] in self.namespaces
            and label(pod, "role") in roles
            and job in ("", label(pod, "job-name"))
        ]
        assert {label(self.pods[uid], "role") for uid in found} == set(roles)
        return found


@pytest.fixture(scope="module")
def seen(cluster: HeldCluster, tenants: tuple[Tenant, Tenant], kwok: Kwok) -> Seen:
    """The network of the whole cluster, with an export pod among the jobs' pods."""
    exporting = Job.create(
        tenants[0].release.api,
        tenants[0].namespace,
        "exporting",
        spec_on_kwok(export={"destination": "pvc://models/out"}),
    )
    (coordinator,) = exporting.wait_ready("coordinator", 1)
    kwok.finish(coordinator)
    until(lambda: exporting.pods("export"), "the export pod", 60.0)
    policies = cluster.request("GET", "/apis/networking.k8s.io/v1/networkpolicies")["items"]
    namespaces = cluster.request("GET", "/api/v1/namespaces")["items"]
    pods = cluster.request("GET", "/api/v1/pods")["items"]
    labels = {each["metadata"]["name"]: each["metadata"].get("labels") or {} for each in namespaces}
    return Seen(
        Network(policies, labels),
        {pod["metadata"]["uid"]: pod for pod in pods},
        frozenset(tenant.namespace for tenant in tenants),
    )


def label(pod: Document, name: str) -> str:
    """One of dartes' labels of a pod; empty where it has none."""
    return str((pod["metadata"].get("labels") or {}).get(f"dartes.dev/{name}", ""))


def test_a_coordinator_is_reached_by_its_own_workers_and_its_operator_alone(
    seen: Seen, tenants: tuple[Tenant, Tenant]
) -> None:
    operators = {tenant.namespace: tenant.release.operator_pod()["metadata"]["uid"] for tenant in tenants}
    coordinators = seen.of("coordinator")
    assert len(coordinators) == 5
    for uid in coordinators:
        target = seen.pods[uid]
        own = {
            other
            for other, pod in seen.pods.items()
            if label(pod, "role") == "worker" and label(pod, "job-uid") == label(target, "job-uid")
        }
        own.add(operators[target["metadata"]["namespace"]])
        reached_by = {
            other
            for other in seen.pods
            if other != uid and seen.network.connects(seen.peer(other), seen.peer(uid), GRPC)
        }
        assert reached_by == own, target["metadata"]["name"]


def test_nothing_but_probes_and_metrics_reaches_a_jobs_other_pods(seen: Seen) -> None:
    others = seen.of("worker", "export")
    for uid in others:
        for port in (22, 80, 443, GRPC, 10250):
            assert not any(
                seen.network.lets_in(seen.peer(uid), seen.peer(other), port)
                for other in seen.pods
                if other != uid
            )
        assert seen.network.lets_in(seen.peer(uid), "10.0.0.1", HTTP), "the node's probes"


@pytest.mark.parametrize("address", METADATA)
def test_no_pod_of_a_job_reaches_where_clouds_hand_out_credentials(seen: Seen, address: str) -> None:
    ours = seen.of("coordinator", "worker", "export")
    for uid in ours:
        for port in (80, 443, 988):
            assert not seen.network.lets_out(seen.peer(uid), address, port)


def test_a_strict_jobs_pods_reach_their_coordinator_names_and_https_alone(seen: Seen) -> None:
    strict = seen.of("coordinator", "worker", job="strict")
    assert len(strict) == 6
    for uid in strict:
        peer = seen.peer(uid)
        reached = {
            (other, port)
            for other, pod in seen.pods.items()
            if other != uid
            for port in (80, 443, 5432, GRPC, HTTP)
            if seen.network.lets_out(peer, Peer.of(pod), port)
        }
        own = {
            (other, GRPC)
            for other, pod in seen.pods.items()
            if label(pod, "role") == "coordinator"
            and label(pod, "job-uid") == label(seen.pods[uid], "job-uid")
            and other != uid
        }
        assert reached == own
        assert seen.network.lets_out(peer, "203.0.113.5", 443)
        assert not seen.network.lets_out(peer, "203.0.113.5", 80)
        for protocol in (TCP, "UDP"):
            assert seen.network.lets_out(peer, "10.96.0.10", 53, protocol)
