"""What a job may not ask of its pods, each with the path that asks for it."""

from typing import Any

import pytest

from .guard_kit import refused


def _problems(workers: dict[str, Any], role: str = "workers") -> tuple[str, ...]:
    return refused(**{role: workers})


def _spec(**spec: Any) -> dict[str, Any]:
    return {"podTemplate": {"spec": spec}}


def _container(**fields: Any) -> dict[str, Any]:
    return _spec(containers=[{"name": "worker", **fields}])


def _volume(**source: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "own", **source}]}


TEMPLATE = "spec.workers.podTemplate"
MAIN = f"{TEMPLATE}.spec.containers[0]"
TOKEN = {"sources": [{"serviceAccountToken": {"path": "t"}}]}


@pytest.mark.parametrize(
    ("workers", "path"),
    [
        (_spec(hostNetwork=True), f"{TEMPLATE}.spec.hostNetwork"),
        (_spec(hostPID=True), f"{TEMPLATE}.spec.hostPID"),
        (_spec(hostIPC=True), f"{TEMPLATE}.spec.hostIPC"),
        (_spec(restartPolicy="Always"), f"{TEMPLATE}.spec.restartPolicy"),
        (_spec(nodeName="a"), f"{TEMPLATE}.spec.nodeName"),
        (_spec(activeDeadlineSeconds=5), f"{TEMPLATE}.spec.activeDeadlineSeconds"),
        (_spec(ephemeralContainers=[]), f"{TEMPLATE}.spec.ephemeralContainers"),
        (_spec(terminationGracePeriodSeconds=0), f"{TEMPLATE}.spec.terminationGracePeriodSeconds"),
        (_spec(automountServiceAccountToken=True), f"{TEMPLATE}.spec.automountServiceAccountToken"),
        (_spec(securityContext={"runAsUser": 0}), f"{TEMPLATE}.spec.securityContext.runAsUser"),
        (_spec(securityContext={"runAsNonRoot": False}), f"{TEMPLATE}.spec.securityContext.runAsNonRoot"),
        (_spec(securityContext={"sysctls": [{}]}), f"{TEMPLATE}.spec.securityContext.sysctls"),
        (
            _spec(securityContext={"seccompProfile": {"type": "Unconfined"}}),
            f"{TEMPLATE}.spec.securityContext.seccompProfile.type",
        ),
        (_spec(securityContext=[]), f"{TEMPLATE}.spec.securityContext"),
        (_spec(volumes=[{"name": "h", "hostPath": {}}]), f"{TEMPLATE}.spec.volumes[0].hostPath"),
        (_spec(volumes=[{"name": "h", "nfs": {}}]), f"{TEMPLATE}.spec.volumes[0].nfs"),
        (_spec(volumes=[{"name": "tls", "emptyDir": {}}]), f"{TEMPLATE}.spec.volumes[0].name"),
        (_spec(volumes="x"), f"{TEMPLATE}.spec.volumes"),
        (_spec(volumes=[3]), f"{TEMPLATE}.spec.volumes[0]"),
        (
            _spec(volumes=[{"name": "t", "projected": TOKEN}]),
            f"{TEMPLATE}.spec.volumes[0].projected.sources[0].serviceAccountToken",
        ),
        (_container(command=["sh"]), f"{MAIN}.command"),
        (_container(args=["x"]), f"{MAIN}.args"),
        (_container(image="x"), f"{MAIN}.image"),
        (_container(livenessProbe={}), f"{MAIN}.livenessProbe"),
        (_container(terminationMessagePolicy="File"), f"{MAIN}.terminationMessagePolicy"),
        (_container(securityContext={"privileged": True}), f"{MAIN}.securityContext.privileged"),
        (
            _container(securityContext={"allowPrivilegeEscalation": True}),
            f"{MAIN}.securityContext.allowPrivilegeEscalation",
        ),
        (
            _container(securityContext={"capabilities": {"add": ["SYS_ADMIN"]}}),
            f"{MAIN}.securityContext.capabilities.add",
        ),
        (_container(securityContext={"procMount": "Unmasked"}), f"{MAIN}.securityContext.procMount"),
        (_container(ports=[{"containerPort": 7443}]), f"{MAIN}.ports[0].containerPort"),
        (_container(ports=[{"containerPort": 9000, "hostPort": 9000}]), f"{MAIN}.ports[0].hostPort"),
        (_container(env=[{"name": "DARTES_JOB", "value": "x"}]), f"{MAIN}.env[0].name"),
        (_container(env=[{"name": "OMP_NUM_THREADS", "value": "8"}]), f"{MAIN}.env[0].name"),
        (
            _container(volumeMounts=[{"name": "x", "mountPath": "/etc/dartes/tls"}]),
            f"{MAIN}.volumeMounts[0].mountPath",
        ),
        (_spec(containers=[{"name": "coordinator"}]), f"{MAIN}.name"),
        (_spec(containers=[{"image": "x"}]), MAIN),
        (_spec(containers={}), f"{TEMPLATE}.spec.containers"),
        (_spec(initContainers=[{"name": "worker"}]), f"{TEMPLATE}.spec.initContainers[0].name"),
        (
            _spec(initContainers=[{"name": "x", "securityContext": {"privileged": True}}]),
            f"{TEMPLATE}.spec.initContainers[0].securityContext.privileged",
        ),
        (
            _spec(containers=[{"name": "spy", "volumeMounts": [{"name": "tls", "mountPath": "/t"}]}]),
            f"{MAIN}.volumeMounts[0].name",
        ),
        ({"podTemplate": {"metadata": {"labels": {"dartes.dev/role": "x"}}}}, f"{TEMPLATE}.metadata.labels"),
        ({"podTemplate": {"metadata": {"name": "x"}}}, f"{TEMPLATE}.metadata.name"),
        ({"podTemplate": {"metadata": []}}, f"{TEMPLATE}.metadata"),
        ({"podTemplate": {"status": {}}}, f"{TEMPLATE}.status"),
        ({"labels": {"app.kubernetes.io/name": "x"}}, "spec.workers.labels[app.kubernetes.io/name]"),
        (
            {"labels": {"kueue.x-k8s.io/queue-name": "x"}},
            "spec.workers.labels[kueue.x-k8s.io/queue-name]",
        ),
        (
            {"annotations": {"dartes.dev/template-hash": "x"}},
            "spec.workers.annotations[dartes.dev/template-hash]",
        ),
        ({"env": [{"name": "DARTES_POD", "value": "x"}]}, "spec.workers.env[0].name"),
        ({"env": [{"name": "A"}, {"name": "A"}]}, "spec.workers.env[1].name"),
        (_volume(hostPath={"path": "/"}), "spec.workers.volumes[0].hostPath"),
        (_volume(projected=TOKEN), "spec.workers.volumes[0].projected.sources[0].serviceAccountToken"),
        (
            _volume(secret={"secretName": "addition-tls-coordinator"}),
            "spec.workers.volumes[0].secret.secretName",
        ),
        ({"volumes": [{"name": "run", "emptyDir": {}}]}, "spec.workers.volumes[0].name"),
        ({"volumeMounts": [{"name": "tls", "mountPath": "/x"}]}, "spec.workers.volumeMounts[0].name"),
        ({"volumeMounts": [{"name": "x", "mountPath": "/etc"}]}, "spec.workers.volumeMounts[0].mountPath"),
        ({"volumeMounts": [{"name": "x", "mountPath": "/"}]}, "spec.workers.volumeMounts[0].mountPath"),
        (
            {"volumeMounts": [{"name": "x", "mountPath": "/var/cache/dartes/hub/x"}]},
            "spec.workers.volumeMounts[0].mountPath",
        ),
    ],
)
def test_what_is_refused_is_named_by_its_path(workers: dict[str, Any], path: str) -> None:
    found = _problems(workers)
    assert len(found) == 1
    assert found[0].startswith(path)


def test_the_coordinators_fields_are_held_to_the_same_rules() -> None:
    (found,) = _problems({"podTemplate": {"spec": {"hostNetwork": True}}}, role="coordinator")
    assert found.startswith("spec.coordinator.podTemplate.spec.hostNetwork")


def test_every_problem_is_named_at_once() -> None:
    template = _spec(hostNetwork=True, hostPID=True, containers=[{"name": "worker", "image": "x"}])
    assert len(_problems({**template, "labels": {"dartes.dev/x": "y"}})) == 4


@pytest.mark.parametrize(
    "workers",
    [
        {},
        _spec(hostNetwork=False, automountServiceAccountToken=False, dnsPolicy="Default"),
        _spec(securityContext={"runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}),
        _spec(initContainers=[{"name": "fetch", "image": "x", "restartPolicy": "Always"}]),
        _container(env=[{"name": "MINE", "value": "x"}], ports=[{"containerPort": 9000}]),
        _spec(
            volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "d"}}],
            containers=[{"name": "worker", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
        ),
        {**_volume(secret={"secretName": "mine"}), "volumeMounts": [{"name": "own", "mountPath": "/own"}]},
        {"labels": {"team": "a"}, "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}},
        _spec(containers=[{"name": "log", "volumeMounts": [{"name": "cache", "mountPath": "/c"}]}]),
    ],
)
def test_what_a_user_may_ask_for_is_let_through(workers: dict[str, Any]) -> None:
    assert _problems(workers) == ()
