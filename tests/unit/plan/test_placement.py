"""The master lies on the GPU where there is room, else in the host's memory; never in fewer bits."""

from dataclasses import replace

import pytest

from dartes.errors import ConfigurationError
from dartes.plan.placement import STAGING_BYTES, TABLE_BYTES, Memory, choose_placement
from dartes.spec.roles import MasterPlacement

GIB = 2**30
SEVEN_BILLION = Memory(
    total_bytes=80 * GIB,
    utilization=0.9,
    served_bytes=14 * GIB,
    master_bytes=28 * GIB,
    workspace_bytes=2 * GIB,
    kv_bytes_per_token=56 * 1024,
    least_tokens=16_384,
)


def test_where_there_is_room_the_master_lies_on_the_gpu() -> None:
    chosen = choose_placement(SEVEN_BILLION)
    assert chosen.where is MasterPlacement.DEVICE
    assert chosen.engine_utilization == pytest.approx(0.9 - (28 * GIB + TABLE_BYTES) / (80 * GIB))
    assert chosen.kv_tokens == (28 * GIB - TABLE_BYTES) // (56 * 1024)
    assert "there is room on the GPU" in chosen.reason


def test_where_there_is_none_it_lies_in_the_hosts_memory_and_the_reason_says_how_much_was_short() -> None:
    chosen = choose_placement(replace(SEVEN_BILLION, total_bytes=40 * GIB))
    assert chosen.where is MasterPlacement.HOST
    assert chosen.engine_utilization == pytest.approx(0.9 - (STAGING_BYTES + TABLE_BYTES) / (40 * GIB))
    assert "on the GPU 8.9 GiB are short" in chosen.reason


@pytest.mark.parametrize("asked", list(MasterPlacement))
def test_what_the_job_asks_for_is_what_it_gets(asked: MasterPlacement) -> None:
    chosen = choose_placement(replace(SEVEN_BILLION, asked=asked))
    assert chosen.where is asked
    assert "as masterPlacement asks" in chosen.reason


def test_too_little_memory_says_how_much_is_short_and_what_would_fit() -> None:
    with pytest.raises(ConfigurationError) as caught:
        choose_placement(replace(SEVEN_BILLION, total_bytes=40 * GIB, asked=MasterPlacement.DEVICE))
    message = str(caught.value)
    assert message.startswith("8.9 GiB of GPU memory are short: of 40.0 GiB the worker may take 36.0 GiB")
    assert "engineOptions.masterPlacement: Host" in message
    assert "gpusPerWorker: 2 times as many" in message


@pytest.mark.parametrize(
    ("changes", "way_out", "field", "value"),
    [
        ({"least_tokens": 1_200_000}, "maxModelLen: ", "least_tokens", int),
        (
            {"utilization": 0.55, "asked": MasterPlacement.DEVICE},
            "gpuMemoryUtilization: ",
            "utilization",
            float,
        ),
    ],
)
def test_what_is_said_to_fit_does(
    changes: dict[str, object], way_out: str, field: str, value: type[int] | type[float]
) -> None:
    memory = replace(SEVEN_BILLION, **changes)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError) as caught:
        choose_placement(memory)
    advised = str(caught.value).split(way_out)[1].split(";")[0]
    choose_placement(replace(memory, **{field: value(advised)}))  # type: ignore[arg-type]


def test_a_model_without_a_cache_is_placed_too() -> None:
    assert choose_placement(replace(SEVEN_BILLION, kv_bytes_per_token=0)).where is MasterPlacement.DEVICE


def test_more_gpus_are_not_advised_where_they_can_not_help() -> None:
    with pytest.raises(ConfigurationError) as caught:
        choose_placement(replace(SEVEN_BILLION, total_bytes=2 * GIB))
    assert "times as many" not in str(caught.value)
    assert "a GPU with" in str(caught.value)
