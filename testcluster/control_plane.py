"""Starts what a cluster has once: store, API server, controllers, scheduler, DNS, kube-proxy, provisioner.

Each is a process of the host with the flags it needs here; comments say why where a flag is unusual.
"""

import socket
import sys
from typing import Final

from .commands import ClusterError, attempt, wait_for, write
from .guard import TABLE, parse_tables
from .machinery import Machinery
from .options import Options
from .volumes import CLASSES

RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
DNS_USER: Final = "testcluster:dns"
PROVISIONER_USER: Final = "testcluster:provisioner"
DNS_READS: Final = ("services", "pods", "namespaces", "nodes", "endpointslices")
ISSUER: Final = "https://kubernetes.default.svc.cluster.local"
NAMES: Final = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
AUDIT_POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    # One line for each request; a watch has one when it starts and one when it ends, with the same auditID.
    "omitStages": ["RequestReceived"],
    # The provisioner looks several times a second.
    "rules": [{"level": "None", "users": [PROVISIONER_USER, DNS_USER]}, {"level": "Metadata"}],
}


def start(machinery: Machinery, options: Options) -> None:
    """From an empty state folder to an API server that is ready and controllers that run."""
    make_certificates(machinery)
    start_store(machinery)
    start_api_server(machinery, options)
    start_controllers(machinery, options)
    create_objects(machinery)
    start_dns(machinery)
    start_proxy(machinery)
    start_provisioner(machinery)


def make_certificates(machinery: Machinery) -> None:
    """The authority and the certificates of everything but the nodes."""
    network, certificates = machinery.network, machinery.certificates
    certificates.make_authority()
    certificates.issue(
        "apiserver", "apiserver", names=NAMES, ips=[network.gateway, f"{network.services}.0.1"]
    )
    certificates.issue("kubelet-client", "apiserver-kubelet-client", "system:masters")
    # Lets extension API servers trust what the API server passes on.
    certificates.issue("front-proxy", "front-proxy-client")
    certificates.kubeconfig("admin", "admin", "system:masters")
    certificates.kubeconfig("provisioner", PROVISIONER_USER, "system:masters")
    certificates.kubeconfig("dns", DNS_USER)
    for name in ("controller-manager", "scheduler", "proxy"):
        certificates.kubeconfig(name, f"system:kube-{name}")


def start_store(machinery: Machinery) -> None:
    """kine: etcd's protocol on SQLite. Nothing survives the host, so it doesn't wait for the disk."""
    state = machinery.paths.state
    store = f"sqlite://{state}/state.db?_journal=WAL&_synchronous=OFF&cache=shared"
    socket_path = state / "kine.sock"
    command = [
        f"{machinery.paths.bin}/kine",
        "--endpoint",
        store,
        "--listen-address",
        f"unix://{socket_path}",
    ]
    machinery.processes.start("kine", [*command, "--metrics-bind-address", "0"])
    wait_for("store", socket_path.exists)


def start_api_server(machinery: Machinery, options: Options) -> None:
    """The API server on the bridge: bound to the loopback address alone, pods could not reach it."""
    paths, network, pki = machinery.paths, machinery.network, machinery.paths.pki
    command = [
        f"{paths.bin}/kube-apiserver",
        f"--etcd-servers=unix://{paths.state}/kine.sock",
        f"--bind-address={network.gateway}",
        f"--advertise-address={network.gateway}",
        "--secure-port=6443",
        f"--service-cluster-ip-range={network.service_range}",
        f"--client-ca-file={pki}/ca.crt",
        f"--tls-cert-file={pki}/apiserver.crt",
        f"--tls-private-key-file={pki}/apiserver.key",
        f"--service-account-key-file={pki}/sa.pub",
        f"--service-account-signing-key-file={pki}/sa.key",
        f"--service-account-issuer={ISSUER}",
        "--authorization-mode=Node,RBAC",
        # The second as on OpenShift: whoever names an owner that waits for it needs a right on that owner.
        "--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement",
        f"--kubelet-certificate-authority={pki}/ca.crt",
        f"--kubelet-client-certificate={pki}/kubelet-client.crt",
        f"--kubelet-client-key={pki}/kubelet-client.key",
        "--kubelet-preferred-address-types=InternalIP",
        f"--requestheader-client-ca-file={pki}/ca.crt",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={pki}/front-proxy.crt",
        f"--proxy-client-key-file={pki}/front-proxy.key",
        "--allow-privileged=true",
        "--profiling=false",
    ]
    if options.audit:
        policy = write(paths.state / "audit-policy.json", AUDIT_POLICY)
        command += [f"--audit-policy-file={policy}", f"--audit-log-path={paths.audit_log}"]
    machinery.processes.start("apiserver", [*command, *options.extra("apiserver")])
    api = machinery.api()
    # It has ended, if it has, for a reason that waiting does not mend.
    wait_for("API server", lambda: machinery.processes.pid("apiserver") is None or api.ready())
    if machinery.processes.pid("apiserver") is None:
        raise ClusterError(f"the API server has ended: {machinery.processes.last_words('apiserver')}")


def restart_api_server(machinery: Machinery, options: Options) -> None:
    """Kill the API server and start it again, on the store as it is."""
    machinery.processes.kill("apiserver")
    start_api_server(machinery, options)


def start_controllers(machinery: Machinery, options: Options) -> None:
    """Controller manager and scheduler, alone and so without leader election."""
    paths, pki = machinery.paths, machinery.paths.pki
    common = ["--leader-elect=false", "--bind-address=127.0.0.1", "--profiling=false"]
    controllers = [
        f"{paths.bin}/kube-controller-manager",
        f"--kubeconfig={paths.state}/controller-manager.kubeconfig",
        f"--service-account-private-key-file={pki}/sa.key",
        f"--root-ca-file={pki}/ca.crt",
        "--use-service-account-credentials=true",
    ]
    machinery.processes.start(
        "controller-manager", [*controllers, *common, *options.extra("controller-manager")]
    )
    scheduler = [f"{paths.bin}/kube-scheduler", f"--kubeconfig={paths.state}/scheduler.kubeconfig"]
    machinery.processes.start("scheduler", [*scheduler, *common, *options.extra("scheduler")])


def create_objects(machinery: Machinery) -> None:
    """What a cluster's installer would create: the DNS program's role and the storage classes."""
    api = machinery.api()
    rules = [
        {"apiGroups": ["", "discovery.k8s.io"], "resources": DNS_READS, "verbs": ["get", "list", "watch"]}
    ]
    api.create(f"{RBAC}/clusterroles", {"metadata": {"name": "testcluster-dns"}, "rules": rules})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "testcluster-dns"}
    binding = {
        "metadata": {"name": "testcluster-dns"},
        "subjects": [{"kind": "User", "name": DNS_USER}],
        "roleRef": role,
    }
    api.create(f"{RBAC}/clusterrolebindings", binding)
    for storage in CLASSES:
        api.create("/apis/storage.k8s.io/v1/storageclasses", storage.manifest())


def start_dns(machinery: Machinery) -> None:
    """CoreDNS on the gateway's address; names outside the cluster have no answer."""
    gateway, state = machinery.network.gateway, machinery.paths.state
    lines = [
        "cluster.local:53 in-addr.arpa:53 {",
        f"    bind {gateway}",
        "    errors",
        "    kubernetes cluster.local in-addr.arpa {",
        f"        kubeconfig {state}/dns.kubeconfig",
        "        pods insecure",
        "        ttl 1",
        "    }",
        "}",
    ]
    write(state / "Corefile", "\n".join(lines) + "\n")
    machinery.processes.start("dns", [machinery.paths.bin / "coredns", "-conf", state / "Corefile"])


def start_proxy(machinery: Machinery) -> None:
    """One kube-proxy for all nodes, since they share the host's network namespace."""
    state = machinery.paths.state
    config = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clusterCIDR": machinery.network.pods,
        "clientConnection": {"kubeconfig": f"{state}/proxy.kubeconfig"},
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        # All pods are on one bridge, where answers could go past the translation; and kube-proxy takes only
        # the first node's pods for local ones, so those of others could not reach themselves by a service.
        "nftables": {"masqueradeAll": True},
        # Leaves the host's limits of connection tracking alone.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }
    command = [f"{machinery.paths.bin}/kube-proxy", f"--config={write(state / 'proxy.json', config)}"]
    machinery.processes.start("proxy", [*command, "--hostname-override=node1"])


def start_provisioner(machinery: Machinery) -> None:
    """The process that makes volumes for claims, started as this same package."""
    package = __package__ or "testcluster"
    root = __file__.rpartition(f"/{package}/")[0]
    environment = {
        "PYTHONPATH": root,
        "DARTES_TESTCLUSTER_CACHE": str(machinery.paths.cache),
        "DARTES_TESTCLUSTER_STATE": str(machinery.paths.state),
    }
    machinery.processes.start("provisioner", [sys.executable, "-m", package, "provision"], **environment)


def wait_for_services(machinery: Machinery) -> None:
    """Until services and DNS answer, so that the first pods don't meet a half-built network."""
    gateway, services = machinery.network.gateway, machinery.network.services

    def answers(address: str, port: int) -> bool:
        with socket.create_connection((address, port), timeout=2.0):
            return True

    def has_tables() -> bool:
        listing = attempt(["nft", "-j", "list", "tables"]).stdout
        return any(table.name == TABLE for table in parse_tables(listing))

    wait_for("kube-proxy's tables", has_tables)
    wait_for("API server behind its service", lambda: answers(f"{services}.0.1", 443))
    wait_for("DNS", lambda: answers(gateway, 53))
