"""What the values do, and which of them are refused."""

import json
from typing import Any

import pytest

from dartes import __version__

from .rendering import CHART, Object, helm, refusal, render, strict_documents

pytestmark = pytest.mark.slow  # not for `make test-fast`

DIGEST = "sha256:" + "ab" * 32


def chart_values() -> Object:
    (values,) = strict_documents((CHART / "values.yaml").read_text())
    return values


def test_chart_and_operator_have_one_version() -> None:
    (chart,) = strict_documents((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == __version__


def test_helm_lint_finds_nothing() -> None:
    done = helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("path", "value", "unknown"),
    [
        ("replicas", 2, "replicas"),
        ("replicaCount", 2, "replicaCount"),
        ("image.name", "x", "name"),
        ("jobDefaults.images.vllm", {"repository": "x"}, "vllm"),
        ("jobDefaults.images.worker.registry", "x", "registry"),
        ("jobDefaults.resources", {}, "resources"),
        ("watch.namespace", "a", "namespace"),
        ("rbac.clusterWide", True, "clusterWide"),
        ("serviceAccount.nmae", "x", "nmae"),
        ("crds.enabled", False, "enabled"),
        ("resources.limit", {"memory": "1Gi"}, "limit"),
        ("securityContext.privileged", True, "privileged"),
        ("metrics.serviceMonitor.enable", True, "enable"),
        ("networkPolicy.ingress", [], "ingress"),
        ("logging.verbosity", 3, "verbosity"),
        ("tolerations", [{"keys": "gpu"}], "keys"),
        ("affinity.nodeaffinity", {}, "nodeaffinity"),
        ("extraEnv", [{"name": "A", "vale": "1"}], "vale"),
        ("imagePullSecrets", [{"secret": "regcred"}], "secret"),
    ],
)
def test_an_unknown_key_is_refused_by_name(path: str, value: object, unknown: str) -> None:
    assert f"additional properties '{unknown}' not allowed" in refusal({path: value})


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("image.registry", "https://registry.example.com"),
        ("image.repository", "Dartes/Operator"),
        ("image.tag", 1.1),
        ("image.tag", "a tag"),
        ("image.digest", "ab" * 32),
        ("image.pullPolicy", "Sometimes"),
        ("watch.namespaces", ["team_a"]),
        ("watch.namespaces", ["a", "a"]),
        ("watch.namespaces", "team-a"),
        ("rbac.scope", "cluster"),
        ("securityContext.runAsUser", 0),
        ("logging.level", "loud"),
        ("logging.format", "xml"),
        ("metrics.serviceMonitor.interval", "30"),
        ("extraVolumes", [{"name": "tmp", "emptyDir": {}}]),
        ("serviceAccount.create", False),
    ],
)
def test_a_value_out_of_bounds_is_refused(path: str, value: object) -> None:
    assert path.split(".")[0] in refusal({path: value})


def test_every_object_of_the_values_is_closed_in_the_schema() -> None:
    """So that a new key of values.yaml without its line in the schema is an error of `helm lint`."""
    schema = json.loads((CHART / "values.schema.json").read_text())

    def check(where: str, values: Object, rule: Object) -> None:
        if "$ref" in rule:
            rule = schema["$defs"][rule["$ref"].rpartition("/")[2]]
        assert rule["additionalProperties"] is not True, where
        for key, value in values.items():
            if isinstance(value, dict) and value and "properties" in rule:
                check(f"{where}.{key}", value, rule["properties"][key])
        if isinstance(rule["additionalProperties"], bool):
            assert set(rule["properties"]) - {"global"} == set(values), where

    check("values", chart_values(), schema)


def test_values_of_a_parent_chart_are_let_through() -> None:
    render({"global": {"imageRegistry": "x"}})


@pytest.mark.parametrize(
    ("values", "image"),
    [
        ({}, f"ghcr.io/dartes/operator:{__version__}"),
        ({"image.registry": ""}, f"dartes/operator:{__version__}"),
        (
            {"image.registry": "registry.example.com:5000/mirror"},
            f"registry.example.com:5000/mirror/dartes/operator:{__version__}",
        ),
        ({"image.registry": "registry.example.com/"}, f"registry.example.com/dartes/operator:{__version__}"),
        ({"image.registry": "", "image.tag": "dev"}, "dartes/operator:dev"),
        ({"image.registry": "", "image.digest": DIGEST}, f"dartes/operator@{DIGEST}"),
        ({"image.registry": "", "image.tag": "dev", "image.digest": DIGEST}, f"dartes/operator@{DIGEST}"),
        ({"image.registry": "", "image.repository": "other/op"}, f"other/op:{__version__}"),
    ],
)
def test_the_operators_image_is_registry_repository_and_digest_or_tag(values: Object, image: str) -> None:
    release = render(values)
    assert release.container["image"] == image
    assert release.one("Pod")["spec"]["containers"][0]["image"] == image  # that of `helm test`


@pytest.mark.parametrize(
    ("values", "images"),
    [
        (
            {},
            {
                "coordinator": f"ghcr.io/dartes/coordinator:{__version__}",
                "worker": f"ghcr.io/dartes/worker:{__version__}",
                "workerVllm": f"ghcr.io/dartes/worker-vllm:{__version__}",
            },
        ),
        (
            {"image.registry": "", "image.tag": "dev", "image.digest": DIGEST},
            {
                "coordinator": "dartes/coordinator:dev",
                "worker": "dartes/worker:dev",
                "workerVllm": "dartes/worker-vllm:dev",
            },
        ),
        (
            {
                "image.registry": "mirror",
                "image.tag": "dev",
                "jobDefaults.images.coordinator.tag": "other",
                "jobDefaults.images.worker.digest": DIGEST,
                "jobDefaults.images.workerVllm.repository": "team/vllm",
            },
            {
                "coordinator": "mirror/dartes/coordinator:other",
                "worker": f"mirror/dartes/worker@{DIGEST}",
                "workerVllm": "mirror/team/vllm:dev",
            },
        ),
    ],
)
def test_job_images_follow_the_operators_registry_and_tag(values: Object, images: dict[str, str]) -> None:
    assert json.loads(render(values).environment["DARTES_DEFAULTS"])["images"] == images


def test_job_defaults_reach_the_operator_whole() -> None:
    toleration = {"key": "gpu", "operator": "Equal", "value": 'a "quoted" $(word)', "effect": "NoSchedule"}
    values: dict[str, Any] = {
        "image.pullPolicy": "Never",
        "jobDefaults.imagePullSecrets": [{"name": "one"}, {"name": "two"}],
        "jobDefaults.tolerations": [toleration],
        "jobDefaults.nodeSelector": {"pool": "a100"},
    }
    defaults = json.loads(render(values).environment["DARTES_DEFAULTS"])
    del defaults["images"]
    assert defaults == {
        "pullPolicy": "Never",
        "pullSecrets": ["one", "two"],
        "tolerations": [toleration],
        "nodeSelector": {"pool": "a100"},
    }
    values["jobDefaults.pullPolicy"] = "Always"
    assert json.loads(render(values).environment["DARTES_DEFAULTS"])["pullPolicy"] == "Always"


def test_settings_reach_the_operators_environment() -> None:
    environment = render(
        {
            "watch.namespaces": ["team-a", "team-b"],
            "logging": {"level": "debug", "format": "text"},
            "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
        }
    ).environment
    del environment["DARTES_DEFAULTS"]
    assert environment == {
        "DARTES_WATCH_NAMESPACES": "team-a,team-b",
        "DARTES_LOG_LEVEL": "debug",
        "DARTES_LOG_FORMAT": "text",
        "DARTES_HTTP": "0.0.0.0:8080",
        "HTTPS_PROXY": "http://proxy:3128",
    }


def test_a_service_monitor_without_the_service_is_refused() -> None:
    assert "metrics.enabled" in refusal({"metrics.enabled": False, "metrics.serviceMonitor.enabled": True})


def test_the_service_monitor_selects_the_service() -> None:
    release = render({"metrics.serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}}})
    monitor, service = release.one("ServiceMonitor"), release.one("Service")
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["spec"]["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]
