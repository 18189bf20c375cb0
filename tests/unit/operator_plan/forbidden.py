"""What a job may not ask of its pods, each with the path that is refused: one table for plans and clusters.

Whatever the guard forbids by name has a row, which `test_resources_guard.py` sees to.
"""

from typing import Any

from .guard_kit import container, template


def _context(**context: Any) -> dict[str, Any]:
    return container(securityContext=context)


def _sidecar(**fields: Any) -> dict[str, Any]:
    return template(containers=[{"name": "log", "image": "x", **fields}])


def _annotated(**annotations: str) -> dict[str, Any]:
    return {"podTemplate": {"metadata": {"annotations": annotations}}}


def _volume(**source: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "own", **source}]}


TEMPLATE = "spec.workers.podTemplate"
MAIN = f"{TEMPLATE}.spec.containers[0]"
CONTEXT = f"{MAIN}.securityContext"
TOKEN = {"sources": [{"serviceAccountToken": {"path": "t"}}]}
CERTIFICATE = {"sources": [{"podCertificate": {"signerName": "a/b", "keyType": "ED25519"}}]}
APPARMOR = "container.apparmor.security.beta.kubernetes.io/worker"
TLS = "another-tls-worker"
ELSEWHERE = {"port": 80, "host": "10.0.0.1"}

FORBIDDEN: list[tuple[dict[str, Any], str]] = [
    (template(hostNetwork=True), f"{TEMPLATE}.spec.hostNetwork"),
    (template(hostPID=True), f"{TEMPLATE}.spec.hostPID"),
    (template(hostIPC=True), f"{TEMPLATE}.spec.hostIPC"),
    (template(restartPolicy="Always"), f"{TEMPLATE}.spec.restartPolicy"),
    (template(nodeName="a"), f"{TEMPLATE}.spec.nodeName"),
    (template(activeDeadlineSeconds=5), f"{TEMPLATE}.spec.activeDeadlineSeconds"),
    (template(ephemeralContainers=[]), f"{TEMPLATE}.spec.ephemeralContainers"),
    (template(terminationGracePeriodSeconds=0), f"{TEMPLATE}.spec.terminationGracePeriodSeconds"),
    (template(automountServiceAccountToken=True), f"{TEMPLATE}.spec.automountServiceAccountToken"),
    (template(securityContext={"runAsUser": 0}), f"{TEMPLATE}.spec.securityContext.runAsUser"),
    (template(securityContext={"runAsNonRoot": False}), f"{TEMPLATE}.spec.securityContext.runAsNonRoot"),
    (template(securityContext={"sysctls": [{}]}), f"{TEMPLATE}.spec.securityContext.sysctls"),
    (
        template(securityContext={"seccompProfile": {"type": "Unconfined"}}),
        f"{TEMPLATE}.spec.securityContext.seccompProfile.type",
    ),
    (template(securityContext=[]), f"{TEMPLATE}.spec.securityContext"),
    (template(volumes=[{"name": "h", "hostPath": {}}]), f"{TEMPLATE}.spec.volumes[0].hostPath"),
    (template(volumes=[{"name": "h", "nfs": {}}]), f"{TEMPLATE}.spec.volumes[0].nfs"),
    (template(volumes=[{"name": "tls", "emptyDir": {}}]), f"{TEMPLATE}.spec.volumes[0].name"),
    (template(volumes="x"), f"{TEMPLATE}.spec.volumes"),
    (template(volumes=[3]), f"{TEMPLATE}.spec.volumes[0]"),
    (
        template(volumes=[{"name": "t", "projected": TOKEN}]),
        f"{TEMPLATE}.spec.volumes[0].projected.sources[0].serviceAccountToken",
    ),
    (container(command=["sh"]), f"{MAIN}.command"),
    (container(args=["x"]), f"{MAIN}.args"),
    (container(image="x"), f"{MAIN}.image"),
    (container(livenessProbe={}), f"{MAIN}.livenessProbe"),
    (container(terminationMessagePolicy="File"), f"{MAIN}.terminationMessagePolicy"),
    (container(securityContext={"privileged": True}), f"{MAIN}.securityContext.privileged"),
    (
        container(securityContext={"allowPrivilegeEscalation": True}),
        f"{MAIN}.securityContext.allowPrivilegeEscalation",
    ),
    (
        container(securityContext={"capabilities": {"add": ["SYS_ADMIN"]}}),
        f"{MAIN}.securityContext.capabilities.add",
    ),
    (container(securityContext={"procMount": "Unmasked"}), f"{MAIN}.securityContext.procMount"),
    (container(ports=[{"containerPort": 7443}]), f"{MAIN}.ports[0].containerPort"),
    (container(ports=[{"containerPort": 9000, "hostPort": 9000}]), f"{MAIN}.ports[0].hostPort"),
    (container(env=[{"name": "DARTES_JOB", "value": "x"}]), f"{MAIN}.env[0].name"),
    (container(env=[{"name": "OMP_NUM_THREADS", "value": "8"}]), f"{MAIN}.env[0].name"),
    (
        container(volumeMounts=[{"name": "x", "mountPath": "/etc/dartes/tls"}]),
        f"{MAIN}.volumeMounts[0].mountPath",
    ),
    (template(containers=[{"name": "coordinator"}]), f"{MAIN}.name"),
    (template(containers=[{"image": "x"}]), MAIN),
    (template(containers={}), f"{TEMPLATE}.spec.containers"),
    (template(initContainers=[{"name": "worker"}]), f"{TEMPLATE}.spec.initContainers[0].name"),
    (
        template(initContainers=[{"name": "x", "securityContext": {"privileged": True}}]),
        f"{TEMPLATE}.spec.initContainers[0].securityContext.privileged",
    ),
    (
        template(containers=[{"name": "spy", "volumeMounts": [{"name": "tls", "mountPath": "/t"}]}]),
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
    *(
        (container(**{key: given}), f"{MAIN}.{key}")
        for key, given in (
            ("imagePullPolicy", "Always"),
            ("readinessProbe", {}),
            ("startupProbe", {}),
            ("restartPolicy", "Always"),
            ("restartPolicyRules", []),
            ("terminationMessagePath", "/tmp/x"),
        )
    ),
    (_context(runAsUser=0), f"{CONTEXT}.runAsUser"),
    (_context(runAsNonRoot=False), f"{CONTEXT}.runAsNonRoot"),
    (_context(windowsOptions={"hostProcess": True}), f"{CONTEXT}.windowsOptions"),
    (_context(seLinuxOptions={"type": "spc_t"}), f"{CONTEXT}.seLinuxOptions.type"),
    (_context(seLinuxOptions={"user": "system_u"}), f"{CONTEXT}.seLinuxOptions.user"),
    (_context(seLinuxOptions={"role": "system_r"}), f"{CONTEXT}.seLinuxOptions.role"),
    (_context(appArmorProfile={"type": "Unconfined"}), f"{CONTEXT}.appArmorProfile.type"),
    (_annotated(**{APPARMOR: "unconfined"}), f"{TEMPLATE}.metadata.annotations[{APPARMOR}]"),
    (
        _sidecar(restartPolicyRules=[{"action": "RestartAllContainers"}]),
        f"{MAIN}.restartPolicyRules[0].action",
    ),
    *(
        (_sidecar(**{probe: {call: ELSEWHERE}}), f"{MAIN}.{probe}.{call}.host")
        for probe in ("livenessProbe", "readinessProbe", "startupProbe")
        for call in ("httpGet", "tcpSocket")
    ),
    *(
        (container(lifecycle={hook: {call: ELSEWHERE}}), f"{MAIN}.lifecycle.{hook}.{call}.host")
        for hook in ("postStart", "preStop")
        for call in ("httpGet", "tcpSocket")
    ),
    (
        container(volumeMounts=[{"name": "x", "mountPath": "/data/.."}]),
        f"{MAIN}.volumeMounts[0].mountPath",
    ),
    (
        template(volumes=[{"name": "c", "projected": CERTIFICATE}]),
        f"{TEMPLATE}.spec.volumes[0].projected.sources[0].podCertificate",
    ),
    *(
        (template(volumes=[{"name": "v", kind: {}}]), f"{TEMPLATE}.spec.volumes[0].{kind}")
        for kind in ("iscsi", "gitRepo", "flexVolume", "rbd", "local")
    ),
    (template(volumes=[{"name": "s", "secret": {"secretName": TLS}}]), f"{TEMPLATE}.spec.volumes[0].secret"),
    (container(envFrom=[{"secretRef": {"name": TLS}}]), f"{MAIN}.envFrom[0].secretRef.name"),
    (
        container(env=[{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": TLS, "key": "tls.key"}}}]),
        f"{MAIN}.env[0].valueFrom.secretKeyRef.name",
    ),
]
"""The workers' fields, and the beginning of the one problem that the guard finds in them."""
