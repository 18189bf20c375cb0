"""What the operator tells Prometheus can be alerted on."""

from prometheus_client.parser import text_string_to_metric_families

from dartes.spec.crd.status import PHASES
from dartes_operator.metrics import Metrics


def test_a_phase_without_jobs_is_zero_and_not_absent() -> None:
    """Else the first job that fails would be a new series, and no rise."""
    metrics = Metrics()
    metrics.observe_with(lambda: 0.0, dict, lambda: {"Running": 3})
    families = text_string_to_metric_families(metrics.text().decode())
    (jobs,) = [family for family in families if family.name == "dartes_jobs"]
    assert {sample.labels["phase"]: sample.value for sample in jobs.samples} == {
        **dict.fromkeys(PHASES, 0.0),
        "Running": 3.0,
    }


def test_jobs_that_nobody_has_counted_yet_are_absent_and_not_zero() -> None:
    """Else each restart of the operator would be a fall to no jobs, and a rise from none that failed."""
    metrics = Metrics()
    metrics.observe_with(lambda: 0.0, dict, lambda: None)
    text = metrics.text().decode()
    assert "dartes_queue_depth" in text
    assert "dartes_jobs" not in text
