"""The chart on a real cluster: soon ready, `helm test` passes, rights in one namespace, and what stays.

The release looks after a namespace of its own, beside whatever operator the other tests use; the definition,
which is the cluster's, is given back to its owner at the end.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from .held import ROOT, CommandFailedError, HeldCluster

CHART = ROOT / "charts" / "dartes"
CRD = "crd/dartesjobs.dartes.dev"
RELEASE = "beside"
NAMESPACE = "dartes-chart-test"
DEPLOYMENT = f"deployment/{RELEASE}-dartes"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:{RELEASE}-dartes"
READY_SECONDS = 20.0

JOB = {
    "apiVersion": "dartes.dev/v1alpha1",
    "kind": "DartESJob",
    # No operator touches it.
    "metadata": {"name": "untouched", "annotations": {"dartes.dev/reconcile": "disabled"}},
    "spec": {
        "model": {"source": "builtin://addition", "dtype": "Float32"},
        "dataset": {"source": "builtin://addition"},
        "task": {"kind": "addition"},
        "es": {"iterations": 1},
        "workers": {"gpusPerWorker": 0},
    },
}


@dataclass(frozen=True)
class Chart:
    """The chart as a release in its own namespace."""

    cluster: HeldCluster
    registry: str

    def kubectl(self, *words: str, text: str | None = None) -> str:
        """What kubectl printed, in the release's namespace."""
        return self.cluster.kubectl("--namespace", NAMESPACE, *words, input=text)

    def helm(self, command: str, *words: str) -> str:
        """What helm printed of the release."""
        return self.cluster.helm(command, RELEASE, *words, "--namespace", NAMESPACE)

    def install(self) -> float:
        """Install the release and wait until the operator is ready; returns the seconds that took."""
        start = time.monotonic()
        try:
            self.helm(
                # The definition may be another release's, or of no release at all.
                *("install", str(CHART), "--take-ownership", "--force-conflicts"),
                *("--wait", "--timeout", "60s"),
                *("--set", f"image.registry={self.registry}"),
                *("--set", "rbac.scope=Namespaced", "--set", f"watch.namespaces={{{NAMESPACE}}}"),
            )
        except CommandFailedError as failure:
            pods = self.kubectl("get", "pods", "-o", "wide")
            pytest.fail(f"{failure}\n{pods}{self.kubectl('logs', DEPLOYMENT, '--tail=40')}")
        return time.monotonic() - start

    def uninstall(self) -> None:
        """Uninstall the release, where it is, and wait until its objects are gone."""
        self.helm("uninstall", "--ignore-not-found", "--wait")
        self.wait_until_the_operator_is_gone()

    def wait_until_the_operator_is_gone(self) -> None:
        """Its pod outlives its Deployment by as long as it takes to end."""
        selector = f"app.kubernetes.io/instance={RELEASE},app.kubernetes.io/component=operator"
        self.kubectl("wait", "pod", "--for=delete", "-l", selector, "--timeout=60s")

    def definition(self) -> dict[str, Any] | None:
        """The metadata of the definition of DartESJob, None where there is none."""
        found = self.kubectl("get", CRD, "--ignore-not-found", "-o", "json")
        metadata: dict[str, Any] | None = json.loads(found)["metadata"] if found else None
        return metadata

    def can(self, user: str, namespace: str, verb: str, resource: str) -> bool:
        """Whether the API server would let somebody do that; a resource is written kind.group/subresource."""
        kind, _, subresource = resource.partition("/")
        plural, _, group = kind.partition(".")
        asked = {"verb": verb, "group": group, "resource": plural, "subresource": subresource}
        review = self.cluster.request(
            "POST",
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SubjectAccessReview",
                "spec": {"user": user, "resourceAttributes": {**asked, "namespace": namespace}},
            },
        )
        return bool(review["status"]["allowed"])


@pytest.fixture(scope="module")
def chart(cluster: HeldCluster, images: Mapping[str, str]) -> Iterator[Chart]:
    """The chart; the definition, which its release takes over, is marked as its owner's again at the end."""
    chart = Chart(cluster, images["operator"].partition("dartes/operator")[0])
    before = chart.definition()
    yield chart
    after = chart.definition()
    if before is None:
        chart.kubectl("delete", CRD, "--ignore-not-found")
    elif after is not None:
        patch = {
            field: dict.fromkeys(after.get(field, {})) | before.get(field, {})
            for field in ("annotations", "labels")
        }
        chart.kubectl("patch", CRD, "--type=merge", "-p", json.dumps({"metadata": patch}))


@pytest.fixture(scope="module")
def seconds_to_ready(chart: Chart) -> Iterator[float]:
    """The release, installed into a namespace that enforces PodSecurity `restricted`."""
    chart.uninstall()
    chart.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found")
    chart.kubectl("create", "namespace", NAMESPACE)
    chart.kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted")
    try:
        yield chart.install()
    finally:
        chart.uninstall()
        chart.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


@pytest.fixture(scope="module")
def untouched_job(chart: Chart, seconds_to_ready: float) -> str:
    """A job that no operator does anything to, as `kubectl get dej -o name` prints it."""
    return chart.kubectl("create", "-f", "-", "-o", "name", text=json.dumps(JOB))


def test_the_operator_is_ready_soon_after_helm_install(
    seconds_to_ready: float, record_property: Callable[[str, object], None]
) -> None:
    record_property("seconds_to_ready", round(seconds_to_ready, 1))
    assert seconds_to_ready <= READY_SECONDS


def test_helm_test_passes(chart: Chart, seconds_to_ready: float) -> None:
    words = chart.helm("test")
    assert words.count("Phase:") == 1
    assert "Phase:          Succeeded" in words


@pytest.mark.full
def test_helm_test_fails_where_the_operator_is_away(chart: Chart, seconds_to_ready: float) -> None:
    chart.kubectl("scale", DEPLOYMENT, "--replicas=0")
    chart.wait_until_the_operator_is_gone()
    try:
        with pytest.raises(CommandFailedError):
            chart.helm("test")
        assert "/readyz" in chart.kubectl("logs", f"{RELEASE}-dartes-test")
    finally:
        chart.kubectl("delete", "pod", f"{RELEASE}-dartes-test", "--ignore-not-found")
        chart.kubectl("scale", DEPLOYMENT, "--replicas=1")
        chart.kubectl("rollout", "status", DEPLOYMENT, "--timeout=60s")


def test_the_operator_was_refused_nothing_that_it_asked_for(chart: Chart, seconds_to_ready: float) -> None:
    log = chart.kubectl("logs", DEPLOYMENT).lower()
    assert log
    assert "forbidden" not in log
    if chart.cluster.audit_log is not None:
        with chart.cluster.audit_log.open() as lines:
            asked = [json.loads(line) for line in lines if ACCOUNT in line and line.endswith("}\n")]
        own = [entry for entry in asked if entry["user"]["username"] == ACCOUNT]
        answered = [(entry["verb"], entry["requestURI"], entry.get("responseStatus", {})) for entry in own]
        assert answered
        assert [each for each in answered if each[2].get("code") == 403] == []


@pytest.mark.parametrize(
    ("allowed", "namespace", "verb", "resource"),
    [
        (True, NAMESPACE, "create", "pods"),
        (True, NAMESPACE, "get", "secrets"),
        (True, NAMESPACE, "patch", "dartesjobs.dartes.dev/status"),
        (True, NAMESPACE, "update", "dartesjobs.dartes.dev/finalizers"),
        (False, NAMESPACE, "list", "secrets"),
        (False, NAMESPACE, "watch", "secrets"),
        (False, NAMESPACE, "create", "pods/exec"),
        (False, NAMESPACE, "create", "dartesjobs.dartes.dev"),
        (False, NAMESPACE, "create", "rolebindings.rbac.authorization.k8s.io"),
        (False, "default", "list", "dartesjobs.dartes.dev"),
        (False, "default", "create", "pods"),
        (False, "default", "get", "secrets"),
        (False, "default", "list", "namespaces"),
        (False, "default", "get", "nodes"),
        (False, "default", "list", "customresourcedefinitions.apiextensions.k8s.io"),
    ],
)
def test_the_operator_may_do_its_work_in_its_namespace_and_nothing_else(
    chart: Chart, seconds_to_ready: float, allowed: bool, namespace: str, verb: str, resource: str
) -> None:
    assert chart.can(ACCOUNT, namespace, verb, resource) is allowed


@pytest.mark.parametrize(
    ("role", "allowed"), [("view", {"get", "list"}), ("edit", {"get", "list", "create", "delete"})]
)
def test_a_namespaces_viewer_may_read_jobs_and_its_editor_may_run_them(
    chart: Chart, seconds_to_ready: float, role: str, allowed: set[str]
) -> None:
    user = f"chart-test-{role}"
    chart.kubectl("create", "rolebinding", user, f"--clusterrole={role}", f"--user={user}")
    verbs = ("get", "list", "create", "delete", "deletecollection")
    may = {verb for verb in verbs if chart.can(user, NAMESPACE, verb, "dartesjobs.dartes.dev")}
    assert may == allowed


def test_uninstalling_keeps_the_definition_and_the_jobs_and_leaves_nothing_else(
    chart: Chart, untouched_job: str
) -> None:
    before = chart.definition()
    chart.uninstall()
    after = chart.definition()
    assert before is not None
    assert after is not None
    assert after["uid"] == before["uid"]
    assert chart.kubectl("get", "dej", "-o", "name") == untouched_job
    kinds = "deployments,pods,services,serviceaccounts,roles,rolebindings,clusterroles,networkpolicies"
    assert chart.kubectl("get", kinds, "-o", "name", "-l", f"app.kubernetes.io/instance={RELEASE}") == ""


def test_installing_again_takes_the_kept_definition_over(chart: Chart, untouched_job: str) -> None:
    before = chart.definition()
    chart.uninstall()
    chart.install()
    after = chart.definition()
    assert before is not None
    assert after is not None
    assert after["uid"] == before["uid"]
    assert chart.kubectl("get", "dej", "-o", "name") == untouched_job
