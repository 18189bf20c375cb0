"""What a worker needs before it registers, and what it says about itself."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from dartes.builtin import builtin_model
from dartes.checkpoint import open_checkpoint
from dartes.errors import ConfigurationError
from dartes.noise import NOISE_VERSION, ServedDtype
from dartes.rpc import PROTOCOL_VERSION
from dartes.spec import JobSpec, algorithm_digest, parse_job_text
from dartes_worker.engines.registry import ENGINE_VARIABLE
from dartes_worker.setup import Equipment, equip

from .conftest import HASHING, JOB


def spec_with(**changes: object) -> JobSpec:
    """The job with some sections changed: `model__source="x"`."""
    job = json.loads(json.dumps(JOB))
    for path, value in changes.items():
        section, _, field = path.partition("__")
        job["spec"][section][field] = value
    return parse_job_text(json.dumps(job), "job.yaml", Path()).job.spec


def test_a_worker_registers_with_everything_that_must_agree(equipment: Equipment) -> None:
    request = equipment.registration("worker-3")
    checkpoint = open_checkpoint(builtin_model("addition"))
    assert (request.worker, request.protocol) == ("worker-3", PROTOCOL_VERSION)
    assert request.noise_version == str(NOISE_VERSION)
    assert request.base_digest == checkpoint.base_digest()
    assert request.algorithm_digest == algorithm_digest(equipment.spec)
    assert {d.name: d.digest for d in request.data} == {
        "train": equipment.stages[0].parts[0].dataset.digest,
        "held-out": equipment.held_out["held-out"].parts[0].dataset.digest,
    }
    tensors = {t.name: tuple(t.shape) for t in request.tensors}
    assert tensors == {info.name: info.shape for info in checkpoint.trainable}
    assert json.loads(request.fingerprint)["engine"] == "hashing"


def test_held_out_answers_are_greedy_whatever_members_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENGINE_VARIABLE, HASHING)
    warm = equip(spec_with(generation__temperature=0.7, es__servedDtype="BFloat16"), Path())
    try:
        assert warm.stages[0].limits.temperature == 0.7
        assert warm.held_out["held-out"].limits.temperature == 0.0
        assert warm.served is ServedDtype.BFLOAT16
    finally:
        warm.close()


def test_mistakes_of_the_data_are_found_before_a_model_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text('{"a": 1}\n')
    spec = spec_with(model__source="nowhere", dataset__source="train.jsonl", evaluation__sets=[])
    with pytest.raises(ConfigurationError, match=r"train\.jsonl line 1: column 'b' is missing"):
        equip(spec, tmp_path)


def test_a_model_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"model\.source = 'nowhere': no folder"):
        equip(spec_with(model__source="nowhere", evaluation__sets=[]), tmp_path)


def test_several_gpus_per_worker_are_refused_with_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENGINE_VARIABLE, HASHING)
    with pytest.raises(ConfigurationError, match=r"spec\.workers\.gpusPerWorker = 2: .*set 1"):
        equip(spec_with(workers__gpusPerWorker=2, evaluation__sets=[]), Path())


@pytest.mark.parametrize(("found", "device"), [(True, "cuda:0"), (False, "cpu")])
def test_one_gpu_is_used_where_there_is_one_and_missed_in_words(
    found: bool,
    device: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    devices: list[str] = []

    def load(*arguments: object) -> SimpleNamespace:
        devices.append(str(arguments[-1]))
        return SimpleNamespace(close=lambda: None, encode=lambda prompts: [[0]] * len(prompts))

    monkeypatch.setitem(
        sys.modules, "torch", SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: found))
    )
    monkeypatch.setattr("dartes_worker.setup.engine_for", lambda _: load)
    equip(spec_with(workers__gpusPerWorker=1, evaluation__sets=[]), Path()).close()
    assert devices == [device]
    assert ("no GPU is found; this worker runs on the CPU" in caplog.text) == (not found)
