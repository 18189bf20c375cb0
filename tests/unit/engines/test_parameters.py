"""The map from checkpoint elements to served memory, proved by loading: writing = saving and loading."""

import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from dartes.checkpoint import Checkpoint, open_checkpoint
from dartes.errors import ConfigurationError
from dartes.noise import ServedDtype
from dartes.noise.dtypes import round_to
from dartes_worker.engines import probe
from dartes_worker.engines.base import Segment, check_coverage
from dartes_worker.engines.loading import load_model
from dartes_worker.engines.parameters import parameter_segments

TinyFolder = Callable[[str], Path]
FAMILIES = (
    "llama",
    "llama-tied",
    "qwen2",
    "qwen3",
    "gemma2",
    "gemma3",
    "mistral",
    "phi3",
    "gpt2",
    "opt",
    "gpt-neox",
    "mixtral",
    "qwen3-moe",
)


def new_values(checkpoint: Checkpoint) -> dict[str, np.ndarray[Any, np.dtype[np.float32]]]:
    generator = np.random.default_rng(3)
    return {info.name: generator.normal(size=info.count).astype(np.float32) for info in checkpoint.trainable}


def write_through(
    segments: list[Segment], values: Mapping[str, np.ndarray[Any, Any]], served: ServedDtype
) -> None:
    for segment in segments:
        part = round_to(served, values[segment.name][segment.start : segment.start + segment.count])
        if isinstance(segment.storage, np.ndarray):
            segment.storage[:] = part
        else:
            segment.storage.write(0, part)


def save_with_values(
    checkpoint: Checkpoint, values: Mapping[str, np.ndarray[Any, Any]], folder: Path
) -> None:
    shutil.copytree(checkpoint.folder, folder)
    state = load_file(folder / "model.safetensors")
    for info in checkpoint.trainable:
        state[info.name] = torch.from_numpy(values[info.name]).view(info.shape)
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})


def assert_same_state(left: torch.nn.Module, right: torch.nn.Module) -> None:
    expected = right.state_dict()
    for name, tensor in left.state_dict().items():
        assert torch.equal(tensor, expected[name]), name


@pytest.mark.parametrize("family", FAMILIES)
def test_writing_through_the_segments_equals_loading_files_with_those_values(
    family: str, tiny_folder: TinyFolder, tmp_path: Path
) -> None:
    checkpoint = open_checkpoint(tiny_folder(family))
    served = ServedDtype.BFLOAT16 if family in ("llama-tied", "mixtral") else ServedDtype.FLOAT32
    model = load_model(checkpoint.folder, served, "cpu")
    segments = parameter_segments(model, checkpoint, served)
    values = new_values(checkpoint)

    write_through(segments, values, served)

    save_with_values(checkpoint, values, tmp_path / "saved")
    assert_same_state(model, load_model(tmp_path / "saved", served, "cpu"))


@pytest.mark.parametrize("served", list(ServedDtype))
def test_the_storage_is_the_served_memory_itself_in_every_format(
    served: ServedDtype, tiny_folder: TinyFolder
) -> None:
    checkpoint = open_checkpoint(tiny_folder("llama"))
    model = load_model(checkpoint.folder, served, "cpu")
    segments = parameter_segments(model, checkpoint, served)
    for segment in segments:
        assert isinstance(segment.storage, np.ndarray)
        assert segment.storage.dtype == served.storage
        assert np.array_equal(
            segment.storage,
            round_to(served, checkpoint.read_f32(segment.name, segment.start, segment.count)),
        )
        segment.storage[:] = 0
    assert not any(parameter.any() for parameter in model.parameters())


def test_served_memory_is_not_a_mapping_of_the_file(tiny_folder: TinyFolder) -> None:
    model = load_model(tiny_folder("llama"), ServedDtype.FLOAT32, "cpu")
    assert all(parameter.data_ptr() % 64 == 0 for parameter in model.parameters())
    mapped = [
        [int(address, 16) for address in line.split()[0].split("-")]
        for line in Path("/proc/self/maps").read_text().splitlines()
        if line.endswith(".safetensors")
    ]
    assert not any(
        begin <= parameter.data_ptr() < end for parameter in model.parameters() for begin, end in mapped
    )


def test_tied_tensors_are_covered_once(tiny_folder: TinyFolder) -> None:
    checkpoint = open_checkpoint(tiny_folder("llama-tied"))
    model = load_model(checkpoint.folder, ServedDtype.FLOAT32, "cpu")
    segments = parameter_segments(model, checkpoint, ServedDtype.FLOAT32)
    unique = {parameter.data_ptr(): parameter.numel() for parameter in model.parameters()}
    assert sum(segment.count for segment in segments) == sum(unique.values())
    assert model.lm_head.weight.data_ptr() == model.model.embed_tokens.weight.data_ptr()


def test_fused_experts_need_one_segment_per_expert_and_projection(tiny_folder: TinyFolder) -> None:
    checkpoint = open_checkpoint(tiny_folder("mixtral"))
    model = load_model(checkpoint.folder, ServedDtype.FLOAT32, "cpu")
    segments = parameter_segments(model, checkpoint, ServedDtype.FLOAT32)
    assert len(segments) == len(checkpoint.trainable)
    assert any("experts.3.w1" in segment.name for segment in segments)
    assert not any("experts.3.w1" in name for name, _ in model.named_parameters())


def test_a_checkpoint_without_the_base_models_prefix_is_mapped(
    tiny_folder: TinyFolder, tmp_path: Path
) -> None:
    source = tiny_folder("gpt2")
    shutil.copytree(source, tmp_path / "model")
    state = {
        name.removeprefix("transformer."): tensor
        for name, tensor in load_file(source / "model.safetensors").items()
    }
    save_file(state, tmp_path / "model" / "model.safetensors", metadata={"format": "pt"})
    checkpoint = open_checkpoint(tmp_path / "model")
    assert all(not info.name.startswith("transformer.") for info in checkpoint.trainable)
    model = load_model(checkpoint.folder, ServedDtype.FLOAT32, "cpu")
    segments = parameter_segments(model, checkpoint, ServedDtype.FLOAT32)
    values = new_values(checkpoint)
    write_through(segments, values, ServedDtype.FLOAT32)
    save_with_values(checkpoint, values, tmp_path / "saved")
    assert_same_state(model, load_model(tmp_path / "saved", ServedDtype.FLOAT32, "cpu"))


def test_experts_that_are_copies_of_one_another_are_told_apart(
    tiny_folder: TinyFolder, tmp_path: Path
) -> None:
    source = tiny_folder("mixtral")
    shutil.copytree(source, tmp_path / "model")
    state = load_file(source / "model.safetensors")
    for name in state:
        state[name] = state[re.sub(r"experts\.\d+", "experts.0", name)].clone()
    save_file(state, tmp_path / "model" / "model.safetensors", metadata={"format": "pt"})
    checkpoint = open_checkpoint(tmp_path / "model")
    model = load_model(checkpoint.folder, ServedDtype.FLOAT32, "cpu")
    segments = parameter_segments(model, checkpoint, ServedDtype.FLOAT32)
    values = new_values(checkpoint)
    write_through(segments, values, ServedDtype.FLOAT32)
    save_with_values(checkpoint, values, tmp_path / "saved")
    assert_same_state(model, load_model(tmp_path / "saved", ServedDtype.FLOAT32, "cpu"))


def test_codes_with_several_digits_give_the_same_map(
    tiny_folder: TinyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = open_checkpoint(tiny_folder("mixtral"))

    def places() -> list[tuple[str, int, int]]:
        model = load_model(checkpoint.folder, ServedDtype.FLOAT32, "cpu")
        segments = parameter_segments(model, checkpoint, ServedDtype.FLOAT32)
        return [(segment.name, segment.start, segment.count) for segment in segments]

    one_digit = places()
    # 8-bit digits: the experts' 4608 elements have two, and runs break at every 256th.
    monkeypatch.setattr(probe, "DIGIT_BITS", 8)
    checks: dict[str, int] = {}
    for name, start, count in places():
        assert start == checks.get(name, 0)
        checks[name] = start + count
    assert checks == {name: start + count for name, start, count in one_digit}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tensor: tensor * 2, "transposes or scales"),
        (lambda tensor: tensor + 1, "plain copies"),
        (lambda tensor: tensor.flip(-1) / 2 + tensor / 2, "plain copies"),
        (lambda tensor: tensor.transpose(-1, -2).contiguous(), "transposes or scales"),
    ],
    ids=["scaled", "shifted", "merged", "transposed"],
)
def test_a_loader_that_computes_with_the_values_is_refused_by_name(
    change: Callable[[torch.Tensor], torch.Tensor],
    message: str,
    tiny_folder: TinyFolder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from transformers import core_model_loading

    plain = core_model_loading.MergeModulelist.convert

    def changed(self: Any, *arguments: Any, **named: Any) -> Any:
        return {name: change(tensor) for name, tensor in plain(self, *arguments, **named).items()}

    monkeypatch.setattr(core_model_loading.MergeModulelist, "convert", changed)
    monkeypatch.setattr(probe, "RUNS_LET_THROUGH", 64)
    checkpoint = open_checkpoint(tiny_folder("mixtral-square"))
    model = load_model(checkpoint.folder, ServedDtype.FLOAT32, "cpu")
    with pytest.raises(ConfigurationError, match=message) as caught:
        parameter_segments(model, checkpoint, ServedDtype.FLOAT32)
    assert "mlp.experts." in str(caught.value)


def test_a_tensor_that_the_architecture_ignores_is_refused_by_name(
    tiny_folder: TinyFolder, tmp_path: Path
) -> None:
    shutil.copytree(tiny_folder("llama"), tmp_path / "model")
    state = load_file(tmp_path / "model" / "model.safetensors")
    state["model.layers.9.extra.weight"] = torch.ones(5)
    save_file(state, tmp_path / "model" / "model.safetensors", metadata={"format": "pt"})
    checkpoint = open_checkpoint(tmp_path / "model")
    model = load_model(checkpoint.folder, ServedDtype.FLOAT32, "cpu")
    with pytest.raises(ConfigurationError, match=r"model\.layers\.9\.extra\.weight: served nowhere"):
        parameter_segments(model, checkpoint, ServedDtype.FLOAT32)


def test_two_trained_tensors_that_the_model_ties_are_refused(tiny_folder: TinyFolder) -> None:
    checkpoint = open_checkpoint(tiny_folder("llama"))
    model = load_model(checkpoint.folder, ServedDtype.FLOAT32, "cpu")
    model.lm_head.weight = model.model.embed_tokens.weight
    head = checkpoint.tensors["model.embed_tokens.weight"]
    tied = replace(
        checkpoint,
        tensors={**checkpoint.tensors, "lm_head.weight": replace(head, name="lm_head.weight")},
    )
    with pytest.raises(ConfigurationError, match=r"model\.embed_tokens\.weight.*tie_word_embeddings"):
        parameter_segments(model, tied, ServedDtype.FLOAT32)


@pytest.mark.parametrize(
    ("segments", "message"),
    [
        ([("a", 0, 4), ("b", 0, 2)], None),
        ([("a", 2, 2), ("b", 0, 2), ("a", 0, 2)], None),
        ([("a", 0, 4)], "b: served nowhere"),
        ([("a", 0, 3), ("b", 0, 2)], "a: 3 of 4 elements are served"),
        ([("a", 0, 1), ("a", 2, 2), ("b", 0, 2)], r"a: elements 1\.\.2 are served nowhere"),
        ([("a", 0, 3), ("a", 2, 2), ("b", 0, 2)], r"a: elements 2\.\.3 are served twice"),
        ([("a", 0, 4), ("b", 0, 2), ("c", 0, 1)], "c: not a trained tensor"),
    ],
)
def test_coverage_must_be_exactly_once(segments: list[tuple[str, int, int]], message: str | None) -> None:
    made = [Segment(name, start, count, np.zeros(count, np.float32)) for name, start, count in segments]
    if message is None:
        check_coverage({"a": 4, "b": 2}, made, "model")
    else:
        with pytest.raises(ConfigurationError, match=message):
            check_coverage({"a": 4, "b": 2}, made, "model")
