"""metrics-server: what pods and nodes use of CPU and memory, which a HorizontalPodAutoscaler asks for.

A process of the host that the API server reaches by a Service, as it would reach pods of it. Fake nodes are
left out: nothing answers there.
"""

import base64
from typing import Final

from ..api import Document
from ..commands import ClusterError, wait_for
from ..machinery import Machinery

NAME: Final = "metrics-server"
NAMESPACE: Final = "kube-system"
PORT: Final = 4443
"""On the gateway's address, where node1's kubelet has the usual 10250."""
RESOLUTION_SECONDS: Final = 10
"""The least that it takes. An autoscaler sees a pod's use after two looks: 10 to 20 s after its start."""
READY_SECONDS: Final = 60.0
PODS: Final = "/apis/metrics.k8s.io/v1beta1/pods"


def start(machinery: Machinery) -> None:
    """Start metrics-server and wait until the API server passes questions on; nothing where it runs."""
    if not machinery.processes.pid(NAME):
        start_process(machinery)
    api = machinery.api()
    for path, body in objects(machinery):
        api.create(path, body)

    def answers() -> bool:
        # An APIService that is not there yet is a 404, one whose server doesn't answer a 503.
        return bool(api.get(f"{PODS}?limit=1"))

    try:
        wait_for("answer of metrics-server", answers, READY_SECONDS)
    except ClusterError as error:
        raise ClusterError(f"{error}: {machinery.processes.last_words(NAME)}") from error


def start_process(machinery: Machinery) -> None:
    """The process itself, with a certificate of the cluster's authority for the Service's name."""
    program = machinery.paths.bin / NAME
    if not program.exists():
        raise ClusterError(f"not built: {NAME}; run `python -m testcluster build {NAME}` first")
    gateway, pki = machinery.network.gateway, machinery.paths.pki
    kubeconfig = machinery.certificates.kubeconfig(NAME, f"testcluster:{NAME}", "system:masters")
    machinery.certificates.issue(f"{NAME}-serving", NAME, names=[f"{NAME}.{NAMESPACE}.svc"], ips=[gateway])
    command = [
        f"{program}",
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--bind-address={gateway}",
        f"--secure-port={PORT}",
        f"--tls-cert-file={pki}/{NAME}-serving.crt",
        f"--tls-private-key-file={pki}/{NAME}-serving.key",
        f"--kubelet-certificate-authority={pki}/ca.crt",
        "--kubelet-preferred-address-types=InternalIP",
        f"--metric-resolution={RESOLUTION_SECONDS}s",
        # Must be less than the resolution.
        "--kubelet-request-timeout=5s",
        "--node-selector=type!=kwok",
    ]
    machinery.processes.start(NAME, command)


def objects(machinery: Machinery) -> list[tuple[str, Document]]:
    """What leads the API server to the process: a Service without pods, and the group that it serves."""
    ca = (machinery.paths.pki / "ca.crt").read_bytes()
    metadata = {"name": NAME, "namespace": NAMESPACE}
    service = {"metadata": metadata, "spec": {"ports": [{"name": "https", "port": 443, "targetPort": PORT}]}}
    slices = {
        "metadata": {**metadata, "labels": {"kubernetes.io/service-name": NAME}},
        "addressType": "IPv4",
        "ports": [{"name": "https", "port": PORT}],
        "endpoints": [{"addresses": [machinery.network.gateway], "conditions": {"ready": True}}],
    }
    group = {
        "metadata": {"name": "v1beta1.metrics.k8s.io"},
        "spec": {
            "group": "metrics.k8s.io",
            "version": "v1beta1",
            "service": {"name": NAME, "namespace": NAMESPACE},
            "caBundle": base64.b64encode(ca).decode(),
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
        },
    }
    return [
        (f"/api/v1/namespaces/{NAMESPACE}/services", service),
        (f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices", slices),
        ("/apis/apiregistration.k8s.io/v1/apiservices", group),
    ]
