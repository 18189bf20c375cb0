"""Dashboard, alerts and monitors of the chart speak of metrics, labels and pods that there really are."""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from dartes.spec.crd.status import PHASES
from dartes_coordinator.metrics import Metrics as CoordinatorMetrics
from dartes_operator import reconcile
from dartes_operator.metrics import Metrics as OperatorMetrics
from dartes_worker.probes import Probes

from .rendering import CHART, ROOT, Object, render, strict_documents

MONITORED = {f"metrics.{name}.enabled": True for name in ("podMonitor", "prometheusRule", "dashboard")}
OF_THE_TARGET = {"namespace", "pod", "dartes_job", "dartes_role"}
"""Labels that a target gives each of its samples, by the chart's monitors."""
METRIC = re.compile(r"\bdartes_[a-z_]+[a-z]\b")
SELECTED = re.compile(r"\b(dartes_[a-z_]+[a-z])\{([^}]*)\}")
GROUPED = re.compile(r"\bby \(([^)]*)\)")


@cache
def exported() -> dict[str, frozenset[str]]:
    """The labels of every sample that coordinator, worker and operator export, by its name."""
    registries = [CollectorRegistry(), CollectorRegistry()]
    CoordinatorMetrics(registries[0])
    Probes(registries[1])
    operator = OperatorMetrics()
    operator.observe_with(lambda: 0.0, lambda: {"Pod": 0.0}, lambda: {"Running": 1})
    found: dict[str, frozenset[str]] = {}
    for registry in (*registries, operator.registry):
        for collector in list(registry._collector_to_names):
            own = frozenset(getattr(collector, "_labelnames", ()))
            for family in collector.collect():
                endings = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
                for ending in endings.get(family.type, ("",)):
                    labels = own | {"le"} if ending == "_bucket" else own
                    sampled = [s.labels for s in family.samples if s.name == family.name + ending]
                    found[family.name + ending] = labels.union(*sampled)
    return found


def alerts() -> list[Object]:
    """Every alert of the chart."""
    (document,) = strict_documents((CHART / "files" / "alerts.yaml").read_text())
    return [rule for group in document["groups"] for rule in group["rules"]]


def dashboard() -> Object:
    """The chart's dashboard."""
    found: Object = json.loads((CHART / "files" / "dashboard.json").read_text())
    return found


def expressions() -> Iterator[tuple[str, str]]:
    """Every query of the alerts and of the dashboard, with where it stands."""
    for rule in alerts():
        yield rule["alert"], rule["expr"]
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]


def named(expression: str) -> set[str]:
    """The metrics that a query names."""
    return set(METRIC.findall(expression)) - OF_THE_TARGET


def test_every_query_asks_for_metrics_that_are_exported() -> None:
    for where, expression in expressions():
        assert named(expression), where
        assert named(expression) <= set(exported()), where


def test_every_metric_that_is_exported_is_on_the_dashboard() -> None:
    shown = set().union(
        *(named(target["expr"]) for p in dashboard()["panels"] for target in p.get("targets", ()))
    )
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in shown}
    assert {re.sub(r"_(bucket|sum|count)$", "", name) for name in exported()} <= families


def test_queries_select_and_group_by_labels_that_the_samples_have() -> None:
    for where, expression in expressions():
        for name, selection in SELECTED.findall(expression):
            labels = {part.split("=")[0].strip(" !") for part in re.findall(r"[a-z_]+\s*!?=", selection)}
            assert labels <= exported()[name] | OF_THE_TARGET, where
        have = OF_THE_TARGET.union(*(exported()[name] for name in named(expression)))
        for group in GROUPED.findall(expression):
            assert {label.strip() for label in group.split(",")} <= have, where


def test_results_and_phases_that_alerts_ask_for_are_values_that_occur() -> None:
    asked = " ".join(rule["expr"] for rule in alerts())
    (results,) = re.findall(r'result=~"([^"]*)"', asked)
    source = Path(reconcile.__file__).read_text(encoding="utf-8")
    assert [result for result in results.split("|") if f'result = "{result}"' not in source] == []
    assert set(re.findall(r'phase="([^"]*)"', asked)) <= set(PHASES)


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: rule["alert"])
def test_an_alert_says_what_is_wrong_and_what_to_do(rule: Object) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert {"summary", "description"} == set(rule["annotations"])
    used = re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values()))
    grouped = {label.strip() for group in GROUPED.findall(rule["expr"]) for label in group.split(",")}
    if grouped:
        assert set(used) <= grouped, "a label that the sum has dropped would be shown empty"
    else:
        assert set(used) <= OF_THE_TARGET.union(*(exported()[name] for name in named(rule["expr"])))


def test_the_page_lists_the_alerts_and_the_metrics() -> None:
    page = (ROOT / "docs" / "observability.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(Dartes\w+)` \| .* \| (\w+) \|$", page, re.MULTILINE)
    assert rows == [(rule["alert"], rule["labels"]["severity"]) for rule in alerts()]
    for name in exported():
        family = re.sub(r"_(bucket|sum|count)$", "", name)
        short = re.sub(r"^dartes_(coordinator|worker)_", "", family)
        assert f"`{short}`" in page or f"`{short}{{" in page, name


def test_panels_do_not_lie_on_one_another() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard()["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        taken |= cells
    identifiers = [panel["id"] for panel in dashboard()["panels"]]
    assert len(set(identifiers)) == len(identifiers)


def test_none_of_it_is_made_unless_it_is_asked_for() -> None:
    release = render()
    for kind in ("PodMonitor", "PrometheusRule", "ServiceMonitor", "ConfigMap"):
        assert release.all(kind) == []


def test_the_rendered_rules_and_dashboard_are_the_files() -> None:
    release = render(MONITORED)
    groups = release.one("PrometheusRule")["spec"]["groups"]
    assert [rule for group in groups for rule in group["rules"]] == alerts()
    assert json.loads(release.one("ConfigMap")["data"]["dartes.json"]) == dashboard()


def test_labels_and_annotations_are_what_the_stack_selects_by() -> None:
    assert render(MONITORED).one("ConfigMap")["metadata"]["labels"]["grafana_dashboard"] == "1"
    own = {"labels": {"release": "prometheus"}}
    release = render(
        {
            **MONITORED,
            "metrics.podMonitor.labels": own["labels"],
            "metrics.prometheusRule.labels": own["labels"],
            "metrics.dashboard.labels": own["labels"],
            "metrics.dashboard.annotations": {"grafana_folder": "Training"},
            "metrics.podMonitor.interval": "1m",
        }
    )
    for kind in ("PodMonitor", "PrometheusRule", "ConfigMap"):
        assert release.one(kind)["metadata"]["labels"]["release"] == "prometheus"
    assert "grafana_dashboard" not in release.one("ConfigMap")["metadata"]["labels"]
    assert release.one("ConfigMap")["metadata"]["annotations"] == {"grafana_folder": "Training"}
    (endpoint,) = release.one("PodMonitor")["spec"]["podMetricsEndpoints"]
    assert endpoint["interval"] == "1m"


def test_the_pod_monitor_looks_where_the_operator_looks() -> None:
    assert render(MONITORED).one("PodMonitor")["spec"]["namespaceSelector"] == {"any": True}
    some = render({**MONITORED, "watch.namespaces": ["team-a", "team-b"]})
    assert some.one("PodMonitor")["spec"]["namespaceSelector"] == {"matchNames": ["team-a", "team-b"]}


def test_the_pod_monitor_finds_coordinators_and_workers_and_no_other_pod() -> None:
    spec = render(MONITORED).one("PodMonitor")["spec"]
    (endpoint,) = spec["podMetricsEndpoints"]
    found = {}
    for role in ("coordinator", "worker", "export"):
        golden = ROOT / "tests" / "unit" / "golden" / "full" / f"{role}.yaml"
        (pod,) = strict_documents(golden.read_text())
        ports = [port.get("name") for c in pod["spec"]["containers"] for port in c.get("ports", ())]
        selected = spec["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
        found[role] = selected and endpoint["port"] in ports
        for rule in endpoint["relabelings"]:
            (label,) = rule["sourceLabels"]
            known = {re.sub(r"[^A-Za-z0-9_]", "_", key) for key in pod["metadata"]["labels"]}
            assert label.removeprefix("__meta_kubernetes_pod_label_") in known
    assert found == {"coordinator": True, "worker": True, "export": False}
    operator = render(MONITORED).one("Deployment")["spec"]["template"]["metadata"]["labels"]
    assert not spec["selector"]["matchLabels"].items() <= operator.items()
