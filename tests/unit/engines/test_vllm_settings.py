"""What vLLM is started with is decided before it is, and what can't be is refused by name."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from dartes.checkpoint import Checkpoint, open_checkpoint
from dartes.errors import ConfigurationError
from dartes.noise import ServedDtype
from dartes.plan.model_shape import ModelShape
from dartes.spec import load_job
from dartes.spec.roles import MasterPlacement
from dartes_worker.engines.registry import engine_for
from dartes_worker.engines.vllm import starting
from dartes_worker.engines.vllm.engine import prompt_seed
from dartes_worker.engines.vllm.settings import VllmSettings

EXAMPLE = Path(__file__).parents[3] / "examples" / "vllm.yaml"
CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "num_hidden_layers": 3,
    "hidden_size": 96,
    "max_position_embeddings": 2_048,
}


def checkpoint(folder: Path, **changes: Any) -> Checkpoint:
    (folder / "config.json").write_text(json.dumps(CONFIG | changes))
    save_file({"w": np.zeros(8, np.float32)}, folder / "model.safetensors")
    return open_checkpoint(folder)


def started(folder: Path, settings: VllmSettings, **changes: Any) -> starting.Started:
    return starting.plan_start(folder, checkpoint(folder, **changes), ServedDtype.BFLOAT16, "cpu", settings)


def test_a_job_is_told_in_vllms_words() -> None:
    settings = VllmSettings.of(load_job(EXAMPLE).job.spec)
    assert settings == VllmSettings(max_model_len=32, token_budget=16_384, max_new_tokens=8)


@pytest.mark.parametrize(
    ("settings", "length"),
    [
        (VllmSettings(token_budget=512, max_new_tokens=64), 512),
        (VllmSettings(token_budget=512, max_new_tokens=400), 800),
        (VllmSettings(token_budget=16_384), 2_048),
        (VllmSettings(max_model_len=100), 100),
    ],
)
def test_a_sequence_may_be_as_long_as_the_job_can_ask_for(
    tmp_path: Path, settings: VllmSettings, length: int
) -> None:
    assert started(tmp_path, settings).length == length


def test_on_a_cpu_the_cache_has_room_for_a_group(tmp_path: Path) -> None:
    small = started(tmp_path, VllmSettings(token_budget=1_000, max_new_tokens=8))
    large = started(tmp_path, VllmSettings(token_budget=3_000, max_new_tokens=8))
    assert small.kv_bytes is not None
    assert large.kv_bytes is not None
    per_token = 2 * 3 * 2 * 16 * 2  # keys and values, layers, heads, head size, bytes
    assert large.kv_bytes - small.kv_bytes == 2_000 * per_token
    assert "room for 1000 tokens" in small.words


@pytest.mark.parametrize(
    ("settings", "changes", "words"),
    [
        (
            VllmSettings(tensor_parallel=4),
            {},
            r"tensorParallelSize = 4: .* has 6 attention heads .* 1, 2, 6",
        ),
        (VllmSettings(max_model_len=4_096), {}, "maxModelLen = 4096: the model takes 2048 tokens"),
        (VllmSettings(), {"num_hidden_layers": None}, "num_hidden_layers = None"),
    ],
)
def test_what_does_not_fit_the_model_is_refused_by_name(
    tmp_path: Path, settings: VllmSettings, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        started(tmp_path, settings, **changes)


def test_a_gpu_gets_the_placement_of_the_plan_and_says_so() -> None:
    shape = ModelShape(7_600_000_000, 28, 28, 4, 128)
    roomy = starting.plan_on_a_gpu(shape, 80 * 2**30, ServedDtype.BFLOAT16, VllmSettings(), 16_384)
    assert roomy.placement is MasterPlacement.DEVICE
    assert "master weights: device, 28.31 GiB per GPU; there is room on the GPU" in roomy.words
    assert roomy.memory_utilization == pytest.approx(0.9 - 28.31 / 80, abs=1e-3)
    settings = VllmSettings(tensor_parallel=2, kv_cache_dtype="fp8", master_placement=MasterPlacement.HOST)
    asked = starting.plan_on_a_gpu(shape, 80 * 2**30, ServedDtype.BFLOAT16, settings, 16_384)
    assert "master weights: host, 14.16 GiB per GPU; as masterPlacement asks" in asked.words


def test_without_vllm_the_message_says_where_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    engine = engine_for(load_job(EXAMPLE).job.spec)
    with pytest.raises(ConfigurationError, match="use the image worker-vllm, or install vllm==0.32.0"):
        engine(tmp_path, checkpoint(tmp_path), ServedDtype.BFLOAT16, 1, "cpu")


def test_seeds_of_prompts_are_distinct_and_fit_vllm() -> None:
    seeds = {prompt_seed(group, position) for group in (0, 1, 2**64 - 1) for position in range(1_000)}
    assert len(seeds) == 3_000
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_of_a_refusal_the_line_that_says_something_is_passed_on() -> None:
    error = ValueError("1 validation error for ModelConfig\n  Value error, no such architecture [type=value]")
    assert starting._reason(error) == "no such architecture"
    assert starting._reason(RuntimeError("")) == "RuntimeError"
