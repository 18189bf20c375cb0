"""The cost model's arithmetic: which limit holds, what more workers change, what a plan says."""

import json
from pathlib import Path

import pytest

from dartes.cli.main import main
from dartes.errors import ConfigurationError
from dartes.plan import cost
from dartes.plan.devices import DEVICES, device_named
from dartes.plan.model_shape import ModelShape, check_tensor_parallel

EXAMPLES = Path(__file__).parents[3] / "examples"
LLAMA = ModelShape(8_030_000_000, 32, 32, 8, 128, 131_072)


def worker(name: str, kv_tokens: int = 500_000, *, host: bool = False) -> cost.Worker:
    return cost.Worker(DEVICES[name], 1, 2, 2, kv_tokens, master_on_host=host)


MISTRAL = ModelShape(7_248_000_000, 32, 32, 8, 128, 32_768)


@pytest.mark.parametrize(("together", "measured"), [(4, 210), (8, 377), (16, 644), (32, 975), (48, 1_190)])
def test_published_timings_of_a_batch_are_met_but_for_a_fifth(together: int, measured: int) -> None:
    """M. Rahman, "Benchmarking Mistral-7B on RTX 4090": 256 + 128 tokens, see docs/cost.md."""
    seconds = cost.generate_seconds(MISTRAL, cost.Load(1, together, 256, 128), worker("RTX4090"))
    assert 0.78 <= together * 128 / seconds / measured <= 0.85


def test_a_published_timing_of_one_sequence_is_met_but_for_a_fifth() -> None:
    """J. Musgrave, "vLLM throughput-latency sweep on NVIDIA A100": 75 tokens/s of decoding."""
    seconds = [cost.generate_seconds(LLAMA, cost.Load(1, 1, 1_024, n), worker("A100-40")) for n in (0, 128)]
    assert 0.8 <= 128 / (seconds[1] - seconds[0]) / 75 <= 0.9


def test_a_smaller_cache_takes_more_waves() -> None:
    load = cost.Load(1, 200, 100, 100)
    roomy = cost.generate_seconds(LLAMA, load, worker("H100"))
    assert cost.generate_seconds(LLAMA, load, worker("H100", 20_000)) > 1.3 * roomy


def test_a_master_in_the_hosts_memory_costs_a_way_over_the_bus() -> None:
    near, far = worker("H100"), worker("H100", host=True)
    over = 4 * LLAMA.parameters / cost.HOST_BANDWIDTH
    assert cost.write_seconds(LLAMA, far) - cost.write_seconds(LLAMA, near) == pytest.approx(over)
    assert cost.update_seconds(LLAMA, 30, far) > cost.update_seconds(LLAMA, 30, near)


@pytest.mark.parametrize(
    ("members", "slices", "useful"),
    [(1, 1, [1]), (4, 1, [1, 2, 4]), (30, 1, [1, 2, 3, 4, 5, 6, 8, 10, 15, 30]), (2, 3, [1, 2, 3, 6])],
)
def test_a_worker_helps_only_where_someone_has_a_lease_less(
    members: int, slices: int, useful: list[int]
) -> None:
    assert cost.useful_workers(members, slices) == useful


def test_more_workers_share_the_leases_and_not_the_update() -> None:
    load = cost.Load(30, 200, 128, 300)
    one, ten = (cost.iteration(LLAMA, load, worker("H100"), workers) for workers in (1, 10))
    assert (one.members_each, ten.members_each) == (30, 3)
    assert one.generate == pytest.approx(10 * ten.generate)
    assert one.update == ten.update


def test_what_is_unknown_or_does_not_divide_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match="--gpu T1: must be one of A10, A100-40"):
        device_named("T1")
    assert device_named("h100") is DEVICES["H100"]
    with pytest.raises(ConfigurationError, match=r"tensorParallelSize = 3: .* 32 attention heads .* 1, 2, 4"):
        check_tensor_parallel(LLAMA, 3, "the model")
    for ranks in (1, 8, 16):
        check_tensor_parallel(LLAMA, ranks, "the model")
    with pytest.raises(ConfigurationError, match="6 ranks can't share"):
        check_tensor_parallel(ModelShape(8, 1, 12, 4, 8), 6, "the model")


def test_key_heads_that_several_ranks_keep_are_counted_for_each() -> None:
    assert LLAMA.kv_values_per_token(8) == LLAMA.kv_values_per_token(16) == 2 * 32 * 128


def test_the_command_plans_a_job_on_a_cpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(EXAMPLES / "vllm.yaml"), "--prompt-tokens", "4"]) == 0
    shown = capsys.readouterr().out
    assert "1 worker, 1 CPU thread" in shown
    assert "answers of 8 (--answer-tokens)" in shown
    assert "more workers help up to 32: 1, 2, 3, 4, 5, 6, 7, 8, 11, 16, 32; between" in shown


MODEL = ["--parameters", "7.6B", "--layers", "28", "--heads", "28", "--kv-heads", "4", "--head-size", "128"]


def test_the_command_plans_a_model_that_is_not_here(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    job = tmp_path / "job.yaml"
    text = (EXAMPLES / "gsm8k.yaml").read_text()
    job.write_text(text.replace("  workers:\n", "  workers:\n    engine: VLLM\n"))
    command = ["plan", str(job), "--gpu", "a100-40", *MODEL]
    assert main([*command, "--gpu-price", "2"]) == 0
    shown = capsys.readouterr().out
    assert "master weights: Host; on the GPU 9.3 GiB are short" in shown
    assert "at that price" in shown
    assert main([*command, "--json", "--workers", "40"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["memory"]["master_placement"] == "Host"
    assert found["memory"]["items"]["served weights"] == 15_200_000_000
    assert sum(found["memory"]["items"].values()) == found["memory"]["total_bytes"] == 40 * 2**30
    assert found["iteration_seconds"]["members_each"] == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "say which GPU with --gpu, one of A10"),
        (["--gpu", "H100"], "not on this machine; give its sizes with --parameters"),
        (["--gpu", "H100", "--parameters", "7B"], "give all five"),
        (["--gpu", "L4", *MODEL, "--heads", "28", "--parameters", "32B"], "GiB of GPU memory are short"),
    ],
)
def test_what_is_missing_or_does_not_fit_is_said(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert main(["plan", str(EXAMPLES / "gsm8k.yaml"), *arguments]) == 64
    assert words in capsys.readouterr().err


def test_a_gpu_for_a_job_on_the_cpu_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(EXAMPLES / "vllm.yaml"), "--gpu", "H100"]) == 64
    assert "the job runs on the CPU" in capsys.readouterr().err


def test_sequences_that_wait_for_room_start_one_by_one() -> None:
    """No cliff where one prompt more than fit is asked for."""
    fitting, more = (
        cost.generate_seconds(LLAMA, cost.Load(1, prompts, 512, 512), worker("H100", 1_024 * 400))
        for prompts in (400, 404)
    )
    assert fitting < more < 1.02 * fitting
