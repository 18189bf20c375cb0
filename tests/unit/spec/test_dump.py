"""A job written back, with all defaults, loads again as the same job."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dartes.spec import LoadedJob, load_job, parse_job_text
from dartes.spec.algorithm import algorithm_digest, compare_for_resume
from dartes.spec.dump import dump_job, resolved_fields
from dartes.spec.job import DartESJob

Load = Callable[[dict[str, Any]], LoadedJob]
EXAMPLES = Path(__file__).parents[3] / "examples"


def again(job: DartESJob, base_dir: Path | None = None) -> DartESJob:
    return parse_job_text(dump_job(job, base_dir), "resolved.yaml", Path("/elsewhere")).job


def test_a_resolved_job_loads_again_and_resolves_to_itself() -> None:
    for example in sorted(EXAMPLES.glob("*.yaml")):
        job = load_job(example).job
        resolved = again(job)
        assert dump_job(resolved) == dump_job(job)
        assert algorithm_digest(resolved.spec) == algorithm_digest(job.spec)
        comparison = compare_for_resume(resolved.spec, job.spec)
        assert comparison.refused == comparison.grown == comparison.placement == ()


def test_defaults_are_filled_in_and_what_is_not_honoured_is_left_out(load: Load) -> None:
    data: Any = resolved_fields(load({}).job)
    assert data["spec"]["es"]["sigma"] == 0.001
    assert data["spec"]["es"]["servedDtype"] == "Float32"
    assert data["spec"]["generation"]["maxNewTokens"] == 1024
    assert data["spec"]["workers"]["minReplicas"] == 1
    assert data["spec"]["suspend"] is False
    for unset in ("coordinator", "export", "monitoring", "queueName"):
        assert unset not in data["spec"]
    for unset in ("tolerations", "nodeSelector", "resources", "image"):
        assert unset not in data["spec"]["workers"]


def test_what_is_empty_inside_a_kubernetes_type_is_kept(load: Load) -> None:
    role = {
        "volumes": [{"name": "scratch", "emptyDir": {}}],
        "affinity": {"podAffinity": {}},
        "podTemplate": {"spec": {"initContainers": []}},
        "tolerations": [],
    }
    job = load({"spec.coordinator": role}).job
    data: Any = resolved_fields(job)
    del role["tolerations"]
    assert data["spec"]["coordinator"] == role
    assert again(job).spec == job.spec.model_copy(
        update={"es": job.spec.es.model_copy(update={"served_dtype": job.spec.served_type})}
    )


def test_everything_that_was_set_comes_back(load: Load) -> None:
    job = load(
        {
            "spec.es": {"epochs": 3, "sigma": 1e-05, "servedDtype": "BFloat16"},
            "spec.task": {"kind": "countdown", "answerFormat": "Boxed", "options": {"a": 1, "b": "1"}},
            "spec.generation.stop": ["\n\n", "yes", "1e3", "~"],
            "spec.checkpoint.weights": {"everyIterations": 5},
            "spec.dataset.columns": {"answer": "the answer"},
        }
    ).job
    assert again(job).model_dump() == job.model_dump()


def test_local_paths_are_made_absolute_so_that_a_run_folder_can_keep_the_file(load: Load) -> None:
    dataset = {"source": "test.jsonl"}
    job = load(
        {
            "spec.model.source": "models/tiny",
            "spec.dataset.source": "file:///data/a%20b.jsonl",
            "spec.evaluation.sets": [{"name": "held-out", "dataset": dataset}],
        }
    ).job
    spec = again(job, Path("/jobs")).spec
    assert spec.model.source == "/jobs/models/tiny"
    assert spec.dataset.source == "/data/a b.jsonl"
    assert spec.evaluation.sets[0].dataset.source == "/jobs/test.jsonl"
    assert again(job).spec.model.source == "models/tiny"


@settings(max_examples=40, deadline=None)
@given(
    prompt=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60),
    sigma=st.floats(1e-9, 1.0),
    seed=st.integers(0, 2**63 - 1),
)
def test_texts_and_numbers_survive_exactly(prompt: str, sigma: float, seed: int) -> None:
    job = load_job(EXAMPLES / "addition.yaml").job
    task = job.spec.task.model_copy(update={"prompt": prompt})
    es = job.spec.es.model_copy(update={"sigma": sigma, "seed": seed})
    spec = again(job.model_copy(update={"spec": job.spec.model_copy(update={"task": task, "es": es})})).spec
    assert (spec.task.prompt, spec.es.sigma, spec.es.seed) == (prompt, sigma, seed)
