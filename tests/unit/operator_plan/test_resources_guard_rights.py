"""Rights that a pod may not take by ways that are easily forgotten: SELinux, calls, restarts, mounts."""

from typing import Any

import pytest

from .guard_kit import container, refused, template

SPEC = "spec.workers.podTemplate.spec"
MAIN = f"{SPEC}.containers[0]"
APPARMOR = "container.apparmor.security.beta.kubernetes.io/worker"


def _init(**fields: Any) -> dict[str, Any]:
    return template(initContainers=[{"name": "fetch", "image": "x", **fields}])


def _sidecar(**fields: Any) -> dict[str, Any]:
    return template(containers=[{"name": "log", "image": "x", **fields}])


def _context(**context: Any) -> dict[str, Any]:
    return template(securityContext=context)


def _only(workers: dict[str, Any]) -> str:
    (found,) = refused(workers=workers)
    return found.partition(": ")[0]


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"type": "spc_t"}, ".type"),
        ({"user": "system_u"}, ".user"),
        ({"role": "system_r"}, ".role"),
        ("spc_t", ""),
    ],
)
def test_selinux_labels_beyond_a_containers_are_refused_in_pod_and_containers(options: Any, key: str) -> None:
    assert _only(_context(seLinuxOptions=options)) == f"{SPEC}.securityContext.seLinuxOptions{key}"
    context = {"seLinuxOptions": options}
    assert _only(container(securityContext=context)) == f"{MAIN}.securityContext.seLinuxOptions{key}"
    where = f"{SPEC}.initContainers[0].securityContext.seLinuxOptions{key}"
    assert _only(_init(securityContext=context)) == where


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"type": "", "user": "", "role": ""},
        {"level": "s0:c1,c2"},
        *({"type": f"container_{kind}t"} for kind in ("", "init_", "kvm_", "engine_")),
    ],
)
def test_selinux_labels_of_a_container_are_let_through(options: dict[str, Any]) -> None:
    assert refused(workers=_context(seLinuxOptions=options)) == ()


def test_windows_options_are_refused_whole() -> None:
    assert _only(_context(windowsOptions={})) == f"{SPEC}.securityContext.windowsOptions"
    options = {"windowsOptions": {"hostProcess": True}}
    assert _only(container(securityContext=options)) == f"{MAIN}.securityContext.windowsOptions"


def test_apparmor_is_not_switched_off_by_an_annotation() -> None:
    annotations = {APPARMOR: "unconfined"}
    assert _only({"annotations": annotations}) == f"spec.workers.annotations[{APPARMOR}]"
    where = f"spec.workers.podTemplate.metadata.annotations[{APPARMOR}]"
    assert _only({"podTemplate": {"metadata": {"annotations": annotations}}}) == where


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("restartPolicy", "Always"),
        ("restartPolicyRules", [{"action": "Restart", "exitCodes": {"operator": "NotIn", "values": [0]}}]),
    ],
)
def test_only_the_operator_starts_dartes_own_container_again(key: str, value: Any) -> None:
    assert _only(container(**{key: value})) == f"{MAIN}.{key}"


def test_no_other_container_starts_dartes_own_again() -> None:
    rules = [{"action": "Restart"}, {"action": "RestartAllContainers"}]
    assert _only(_sidecar(restartPolicyRules=rules)) == f"{MAIN}.restartPolicyRules[1].action"
    where = f"{SPEC}.initContainers[0].restartPolicyRules[1].action"
    assert _only(_init(restartPolicyRules=rules)) == where


def test_an_init_container_may_stay_as_a_sidecar() -> None:
    assert refused(workers=_init(restartPolicy="Always")) == ()
    assert refused(workers=_sidecar(restartPolicyRules=[{"action": "Restart"}])) == ()


@pytest.mark.parametrize("call", ["httpGet", "tcpSocket"])
def test_no_probe_or_hook_calls_another_host_from_the_node(call: str) -> None:
    handler = {call: {"port": 80, "host": "10.0.0.1"}}
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        assert _only(_sidecar(**{probe: handler})) == f"{MAIN}.{probe}.{call}.host"
        where = f"{SPEC}.initContainers[0].{probe}.{call}.host"
        assert _only(_init(restartPolicy="Always", **{probe: handler})) == where
    for hook in ("postStart", "preStop"):
        for made in (_sidecar, container):
            assert _only(made(lifecycle={hook: handler})) == f"{MAIN}.lifecycle.{hook}.{call}.host"


def test_probes_and_hooks_that_call_their_own_pod_are_let_through() -> None:
    call = {"httpGet": {"port": 80, "path": "/", "host": ""}}
    assert refused(workers=_sidecar(livenessProbe=call, lifecycle={"preStop": call})) == ()
    assert refused(workers=container(lifecycle={"preStop": {"exec": {"command": ["sync"]}}})) == ()


@pytest.mark.parametrize(
    "at", ["/etc/dartes//tls", "/etc/./dartes/tls", "//etc//dartes/tls//", "etc/dartes/tls/."]
)
def test_a_mount_is_compared_as_the_container_sees_it(at: str) -> None:
    mounts = [{"name": "own", "mountPath": at}]
    assert _only({"volumeMounts": mounts}) == "spec.workers.volumeMounts[0].mountPath"
    assert _only(container(volumeMounts=mounts)) == f"{MAIN}.volumeMounts[0].mountPath"


@pytest.mark.parametrize("at", ["/etc/x/../dartes/tls", "/data/..", "../etc"])
def test_a_mount_path_that_climbs_is_refused_wherever_it_leads(at: str) -> None:
    mounts = [{"name": "own", "mountPath": at}]
    for workers, where in (
        ({"volumeMounts": mounts}, "spec.workers"),
        (container(volumeMounts=mounts), MAIN),
        (_sidecar(volumeMounts=mounts), MAIN),
    ):
        (found,) = refused(workers=workers)
        assert found.startswith(f"{where}.volumeMounts[0].mountPath: ")
        assert "without '..'" in found


def test_a_mount_path_with_two_dots_in_a_name_is_let_through() -> None:
    assert refused(workers={"volumeMounts": [{"name": "own", "mountPath": "/data/a..b"}]}) == ()
