"""Certificates: made at the start, looked at before a pod is made, made again where one is lost."""

from dartes_operator.plan.plan import plan
from dartes_operator.plan.types import IssueCertificates, ReadCertificates

from .kit import Cluster, running


def test_secrets_are_read_only_before_a_pod_is_made() -> None:
    cluster = running()
    quiet = plan(cluster.job, cluster.observe(), cluster.now, cluster.defaults)
    assert ReadCertificates() not in quiet.actions
    cluster.vanish("addition-worker-0")
    cluster.step()
    asking = plan(cluster.job, cluster.observe(), cluster.now, cluster.defaults)
    assert asking.actions == (ReadCertificates(),)
    assert asking.status == cluster.status
    assert asking.events == ()


def test_a_lost_secret_means_a_new_authority_and_new_pods() -> None:
    cluster = running()
    old = cluster.secrets["operator"]
    del cluster.secrets["worker"]
    cluster.vanish("addition-worker-0")
    cluster.step()
    found = cluster.step()
    assert any(isinstance(action, IssueCertificates) for action in found.actions)
    cluster.settle()
    cluster.leave_all()
    cluster.settle()
    marks = {pod["metadata"]["annotations"]["dartes.dev/authority"] for pod in cluster.pods().values()}
    assert marks == {cluster.secrets["worker"]}
    assert old not in marks
    assert cluster.status["failures"]["disruptions"] == 1, "the one that vanished"


def test_pods_of_an_older_authority_are_made_anew() -> None:
    cluster = running()
    cluster.secrets = dict.fromkeys(cluster.secrets, "feedbeef01")
    cluster.vanish("addition-worker-1")
    cluster.settle()
    cluster.leave_all()
    cluster.settle()
    marks = {pod["metadata"]["annotations"]["dartes.dev/authority"] for pod in cluster.pods().values()}
    assert marks == {"feedbeef01"}


def test_secrets_of_somebody_else_are_left_alone() -> None:
    cluster = Cluster()
    cluster.step()
    cluster.foreign_secrets = ("addition-tls-worker",)
    cluster.secrets.pop("worker")
    cluster.vanish("addition-worker-0")
    cluster.settle()
    assert cluster.condition("ResourcesReady")["reason"] == "NameConflict"
    assert "addition-tls-worker" in cluster.condition("ResourcesReady")["message"]
    assert "addition-worker-0" not in cluster.pods()


def test_a_secret_lost_while_a_pod_waits_for_it_is_made_again() -> None:
    cluster = running()
    cluster.vanish("addition-worker-0")
    cluster.settle()
    del cluster.secrets["worker"]
    pod = cluster.pod("addition-worker-0")
    pod["spec"]["nodeName"] = "node-1"
    pod["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": cluster.now.isoformat()},
        {"type": "PodReadyToStartContainers", "status": "False"},
    ]
    cluster.pass_by(61)
    cluster.settle()
    cluster.leave_all()
    cluster.settle()
    assert set(cluster.secrets) == {"coordinator", "worker", "operator"}
    marks = {pod["metadata"]["annotations"]["dartes.dev/authority"] for pod in cluster.pods().values()}
    assert marks == set(cluster.secrets.values())
