"""The operator's pod and that of `helm test`: one, restricted, and quick to be ready."""

import pytest

from .rendering import Object, Release, render


def pod_specs(release: Release) -> dict[str, Object]:
    """The pod specs of a release by what they are for."""
    return {
        "operator": release.one("Deployment")["spec"]["template"]["spec"],
        "helm test": release.one("Pod")["spec"],
    }


@pytest.mark.parametrize("pod", ["operator", "helm test"])
def test_a_pod_is_what_restricted_admits_and_its_root_is_read_only(pod: str) -> None:
    spec = pod_specs(render())[pod]
    assert spec["securityContext"] == {
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "fsGroup": 65532,
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers"} & set(spec)
    for container in spec["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }
        assert not any("hostPort" in port for port in container.get("ports", []))


@pytest.mark.parametrize("pod", ["operator", "helm test"])
def test_user_numbers_can_be_left_to_the_platform(pod: str) -> None:
    nobody = {"runAsUser": None, "runAsGroup": None, "fsGroup": None}
    spec = pod_specs(render({"securityContext": nobody}))[pod]
    assert spec["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def test_there_is_one_operator_and_the_old_one_goes_first() -> None:
    spec = render().one("Deployment")["spec"]
    assert spec["replicas"] == 1
    assert spec["strategy"] == {"type": "Recreate"}


def test_the_operator_can_write_to_tmp_only() -> None:
    release = render()
    assert [mount["mountPath"] for mount in release.container["volumeMounts"]] == ["/tmp"]
    (volume,) = release.one("Deployment")["spec"]["template"]["spec"]["volumes"]
    assert "emptyDir" in volume


def test_more_volumes_come_beside_tmp() -> None:
    release = render(
        {
            "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
            "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/ssl/extra", "readOnly": True}],
        }
    )
    assert [mount["name"] for mount in release.container["volumeMounts"]] == ["tmp", "ca"]
    volumes = release.one("Deployment")["spec"]["template"]["spec"]["volumes"]
    assert [volume["name"] for volume in volumes] == ["tmp", "ca"]


def test_the_operator_is_asked_often_while_it_starts() -> None:
    container = render().container
    assert container["startupProbe"]["periodSeconds"] == 1
    assert container["readinessProbe"]["periodSeconds"] <= 2
    assert container["startupProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert {probe["httpGet"]["port"] for name, probe in container.items() if name.endswith("Probe")} == {
        "http"
    }
    assert container["ports"] == [{"name": "http", "containerPort": 8080}]


def test_the_deployment_and_the_service_select_the_operator_and_not_a_job_of_the_releases_name() -> None:
    release = render()
    deployment = release.one("Deployment")["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    job_pod = {**labels, "app.kubernetes.io/component": "worker"}
    for selector in (deployment["selector"]["matchLabels"], release.one("Service")["spec"]["selector"]):
        assert selector.items() <= labels.items()
        assert not selector.items() <= job_pod.items()


def test_placement_reaches_the_operators_pod() -> None:
    values: Object = {
        "nodeSelector": {"pool": "system"},
        "tolerations": [{"key": "system", "operator": "Exists"}],
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}
        },
        "priorityClassName": "system-cluster-critical",
        "imagePullSecrets": [{"name": "regcred"}],
    }
    assert values.items() <= pod_specs(render(values))["operator"].items()


def test_helm_test_asks_the_release_that_it_belongs_to() -> None:
    (test,) = pod_specs(render({"watch.namespaces": ["team-a"]}, name="blue"))["helm test"]["containers"]
    environment = {each["name"]: each["value"] for each in test["env"]}
    assert environment == {
        "OPERATOR_URL": "http://blue-dartes-metrics.dartes-system.svc:8080",
        "WATCH_NAMESPACES": "team-a",
    }


def test_helm_test_without_a_service_asks_the_api_server_only() -> None:
    (test,) = pod_specs(render({"metrics.enabled": False}))["helm test"]["containers"]
    assert {"name": "OPERATOR_URL", "value": ""} in test["env"]


def test_the_network_policy_opens_the_http_port_only() -> None:
    policy = render({"networkPolicy.enabled": True}).one("NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress"]
    assert policy["ingress"] == [{"ports": [{"port": "http", "protocol": "TCP"}]}]


def test_a_closed_network_policy_still_lets_helm_test_in() -> None:
    peer = {"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}
    release = render({"networkPolicy": {"enabled": True, "metricsFrom": [peer]}})
    (rule,) = release.one("NetworkPolicy")["spec"]["ingress"]
    assert peer in rule["from"]
    selected = rule["from"][1]["podSelector"]["matchLabels"]
    assert selected.items() <= release.one("Pod")["metadata"]["labels"].items()
