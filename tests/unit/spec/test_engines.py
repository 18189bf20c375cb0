"""Settings of engines that contradict one another are refused by name; idle ones are warned about."""

from collections.abc import Callable
from typing import Any

import pytest

from dartes.spec import LoadedJob
from dartes.spec.checks import errors_for, warnings_for

Load = Callable[[dict[str, Any]], LoadedJob]
Problems = Callable[[dict[str, Any]], dict[str, str]]


def workers(gpus: int = 1, engine: str = "VLLM", **options: Any) -> dict[str, Any]:
    return {"spec.workers": {"engine": engine, "gpusPerWorker": gpus, "engineOptions": options}}


def job(load: Load, gpus: int = 1, engine: str = "VLLM", **options: Any) -> LoadedJob:
    return load(workers(gpus, engine, **options))


@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        (workers(2, tensorParallelSize=4), "engineOptions.tensorParallelSize", "gpusPerWorker is 2"),
        (workers(kvCacheDtype="fp9"), "engineOptions.kvCacheDtype", "'fp9' is none of auto, float16, "),
        (workers(engine="Transformers", maxModelLen=9), "engineOptions", "is Transformers; set engine: VLLM"),
    ],
)
def test_settings_that_do_not_fit_are_refused(
    problems: Problems, changes: dict[str, Any], path: str, words: str
) -> None:
    (found,) = problems(changes).items()
    assert found[0] == f"spec.workers.{path}"
    assert words in found[1]


@pytest.mark.parametrize(
    ("gpus", "options", "ranks"),
    [
        (0, {}, 1),
        (1, {}, 1),
        (4, {}, 4),
        (4, {"tensorParallelSize": 4}, 4),
        (0, {"tensorParallelSize": 2}, 2),
    ],
)
def test_a_model_is_shared_by_all_gpus_of_a_worker(
    load: Load, gpus: int, options: dict[str, Any], ranks: int
) -> None:
    spec = job(load, gpus, **options).job.spec
    assert errors_for(spec) == []
    assert spec.workers.tensor_parallel == ranks


def test_the_transformers_engine_shares_nothing(load: Load) -> None:
    assert job(load, 4, "Transformers").job.spec.workers.tensor_parallel == 1


@pytest.mark.parametrize("options", [{"batchInvariant": True}, {"masterPlacement": "Host"}])
def test_what_only_gpus_have_is_warned_about_on_a_cpu(load: Load, options: dict[str, Any]) -> None:
    (warning,) = warnings_for(job(load, 0, **options).job.spec)
    assert "has no effect with gpusPerWorker: 0" in warning
    assert warnings_for(job(load, 1, **options).job.spec) == []


def test_formats_that_vllm_has_for_gpus_only_are_refused_on_a_cpu(problems: Problems, load: Load) -> None:
    (found,) = problems(workers(0, kvCacheDtype="bfloat16")).items()
    assert found[0] == "spec.workers.engineOptions.kvCacheDtype"
    assert "on a CPU vLLM takes auto, fp8, fp8_e4m3, fp8_e5m2" in found[1]
    assert errors_for(job(load, 1, kvCacheDtype="bfloat16").job.spec) == []
