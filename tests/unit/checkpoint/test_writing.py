"""A written folder loads in `transformers` with exactly the values that were written, or isn't there."""

import errno
import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from dartes.checkpoint import Checkpoint, CheckpointError, open_checkpoint, write_checkpoint
from dartes.checkpoint.write import with_dtype
from dartes.errors import TransientError
from dartes.noise import ServedDtype

TORCH = {
    ServedDtype.FLOAT32: torch.float32,
    ServedDtype.BFLOAT16: torch.bfloat16,
    ServedDtype.FLOAT16: torch.float16,
}
SMALL = {
    "vocab_size": 32,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "bos_token_id": 0,
    "eos_token_id": 1,
}


def build(kind: str) -> PreTrainedModel:
    torch.manual_seed(3)
    if kind == "gpt2":
        small = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 16}
        return GPT2LMHeadModel(GPT2Config(vocab_size=32, bos_token_id=0, eos_token_id=1, **small))
    tied = "untied" not in kind
    if kind.startswith("qwen2"):
        return Qwen2ForCausalLM(Qwen2Config(tie_word_embeddings=tied, **SMALL))
    return LlamaForCausalLM(LlamaConfig(tie_word_embeddings=tied, **SMALL))


def saved(path: Path, kind: str, dtype: torch.dtype = torch.bfloat16) -> Path:
    """A random model as `transformers` saves it; with "head", the file also repeats the embedding as head."""
    build(kind).to(dtype).save_pretrained(path)
    if "head" in kind:
        tensors = load_file(path / "model.safetensors")
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
        save_file(tensors, path / "model.safetensors", {"format": "pt"})
    return path


def shifted(checkpoint: Checkpoint) -> dict[str, NDArray[np.float32]]:
    """New float32 values for every trained tensor, with exact ties between 16-bit neighbours among them."""
    generator = np.random.default_rng(5)
    values = {
        info.name: generator.standard_normal(info.count, dtype=np.float32) for info in checkpoint.trainable
    }
    ties = np.array([1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-11, 1 + 3 * 2**-11, -0.0], dtype=np.float32)
    for array in values.values():
        array[: ties.size] = ties
    return values


@pytest.mark.parametrize(
    "kind", ["llama", "llama with head", "llama untied", "qwen2", "qwen2 untied", "gpt2"]
)
@pytest.mark.parametrize("dtype", ServedDtype)
def test_transformers_loads_what_was_written(tmp_path: Path, kind: str, dtype: ServedDtype) -> None:
    checkpoint = open_checkpoint(saved(tmp_path / "base", kind))
    values = shifted(checkpoint)
    write_checkpoint(checkpoint, lambda n, s, c: values[n][s : s + c], tmp_path / "out", dtype)
    model, report = AutoModelForCausalLM.from_pretrained(
        tmp_path / "out", dtype="auto", output_loading_info=True
    )
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    state = model.state_dict()
    for info in checkpoint.trainable:
        loaded = state[info.name]
        assert loaded.dtype == TORCH[dtype]
        expected = torch.from_numpy(values[info.name]).reshape(info.shape).to(TORCH[dtype])
        assert torch.equal(loaded.view(torch.uint8), expected.view(torch.uint8)), info.name
    if "untied" not in kind:
        embedding = model.get_input_embeddings().weight
        assert torch.equal(model.get_output_embeddings().weight, embedding)


def test_a_head_of_undeclared_tie_is_written_equal_to_its_embedding(tmp_path: Path) -> None:
    base = saved(tmp_path / "base", "llama with head")
    config = json.loads((base / "config.json").read_text())
    del config["tie_word_embeddings"]
    (base / "config.json").write_text(json.dumps(config))
    checkpoint = open_checkpoint(base)
    values = shifted(checkpoint)
    write_checkpoint(checkpoint, lambda n, s, c: values[n][s : s + c], tmp_path / "out", ServedDtype.BFLOAT16)
    # This loader doesn't tie without being told, so the head's values must stand in the file.
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out", dtype="auto")
    assert torch.equal(model.lm_head.weight, model.model.embed_tokens.weight)


def test_an_unchanged_export_has_the_digest_of_its_base(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(saved(tmp_path / "base", "llama untied"))
    write_checkpoint(
        checkpoint, checkpoint.read_f32, tmp_path / "out", ServedDtype.BFLOAT16, shard_bytes=3000
    )
    assert open_checkpoint(tmp_path / "out").base_digest() == checkpoint.base_digest()


def test_large_models_are_cut_into_shards_that_load(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(saved(tmp_path / "base", "llama"))
    values = shifted(checkpoint)
    write_checkpoint(
        checkpoint,
        lambda n, s, c: values[n][s : s + c],
        tmp_path / "out",
        ServedDtype.FLOAT32,
        shard_bytes=4000,
    )
    shards = sorted(path.name for path in (tmp_path / "out").glob("*.safetensors"))
    assert len(shards) > 2
    assert shards[0] == f"model-00001-of-{len(shards):05d}.safetensors"
    assert all((tmp_path / "out" / shard).stat().st_size < 4000 + 1000 for shard in shards)
    state = AutoModelForCausalLM.from_pretrained(tmp_path / "out", dtype="auto").state_dict()
    for name, array in values.items():
        assert torch.equal(state[name].flatten(), torch.from_numpy(array))


def test_buffers_are_copied_as_they_are(tmp_path: Path) -> None:
    tensors = {
        "model.w": torch.randn(4).to(torch.bfloat16),
        "rotary.inv_freq": torch.tensor([1.0, 0.1234567]),
        "position_ids": torch.arange(5),
    }
    (tmp_path / "base").mkdir()
    save_file(tensors, tmp_path / "base" / "model.safetensors", {"format": "pt"})
    checkpoint = open_checkpoint(tmp_path / "base")
    write_checkpoint(checkpoint, checkpoint.read_f32, tmp_path / "out", ServedDtype.FLOAT32)
    loaded = load_file(tmp_path / "out" / "model.safetensors")
    assert torch.equal(loaded["rotary.inv_freq"], tensors["rotary.inv_freq"])
    assert torch.equal(loaded["position_ids"], tensors["position_ids"])
    assert torch.equal(loaded["model.w"], tensors["model.w"].float())


def test_threads_and_pieces_do_not_change_a_byte(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    values = torch.randn(2**21 + 77)
    save_file({"w": values}, tmp_path / "base" / "model.safetensors")
    checkpoint = open_checkpoint(tmp_path / "base")
    for threads in (1, 3):
        write_checkpoint(
            checkpoint, checkpoint.read_f32, tmp_path / f"out{threads}", ServedDtype.FLOAT16, threads=threads
        )
    one, three = ((tmp_path / f"out{n}" / "model.safetensors").read_bytes() for n in (1, 3))
    assert one == three
    loaded = load_file(tmp_path / "out3" / "model.safetensors")["w"]
    assert torch.equal(loaded, values.half())


def test_the_files_that_make_it_usable_travel_and_old_weights_do_not(tmp_path: Path) -> None:
    base = saved(tmp_path / "base", "llama")
    travels = ["tokenizer.json", "tokenizer_config.json", "vocab.txt", "merges.txt", "tokenizer.model"]
    travels += ["chat_template.jinja", "special_tokens_map.json", "LICENSE", "NOTICE", "modeling_own.py"]
    stays = ["README.md", "pytorch_model.bin", "pytorch_model.bin.index.json", "dartes.json", ".hidden.json"]
    stays += ["adapter_config.json", "model-00001-of-00002.safetensors", "curves.png"]
    for name in travels + stays:
        (base / name).write_text(f"{{}} {name}")
    checkpoint = open_checkpoint(base)
    write_checkpoint(
        checkpoint,
        checkpoint.read_f32,
        tmp_path / "out",
        ServedDtype.FLOAT16,
        provenance=lambda: {"iteration": 4},
    )
    present = {path.name for path in (tmp_path / "out").iterdir()}
    assert present == {*travels, "config.json", "generation_config.json", "model.safetensors", "dartes.json"}
    assert (tmp_path / "out" / "merges.txt").read_text() == "{} merges.txt"
    assert json.loads((tmp_path / "out" / "dartes.json").read_text()) == {"iteration": 4}
    assert json.loads((tmp_path / "out" / "config.json").read_text())["dtype"] == "float16"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"dtype": "float32"}, {"dtype": "bfloat16"}),
        ({"torch_dtype": "float32"}, {"torch_dtype": "bfloat16"}),
        ({"dtype": None, "torch_dtype": "auto"}, {"dtype": "bfloat16", "torch_dtype": "bfloat16"}),
        ({"a": 1}, {"a": 1, "torch_dtype": "bfloat16"}),
        (
            {"text_config": {"torch_dtype": "float16", "n": 2}, "dtype": "x"},
            {"text_config": {"torch_dtype": "bfloat16", "n": 2}, "dtype": "bfloat16"},
        ),
    ],
)
def test_the_configuration_says_what_is_written(before: dict[str, object], after: dict[str, object]) -> None:
    assert with_dtype(before, ServedDtype.BFLOAT16) == after


@pytest.mark.parametrize("content", ["file", "folder", "dangling link"])
def test_an_existing_output_is_refused_and_kept(tmp_path: Path, content: str) -> None:
    checkpoint = open_checkpoint(saved(tmp_path / "base", "llama"))
    output = tmp_path / "out"
    if content == "file":
        output.write_text("precious")
    elif content == "folder":
        output.mkdir()
        (output / "notes").write_text("precious")
    else:
        output.symlink_to(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match="out: exists and is not empty; name a new folder"):
        write_checkpoint(checkpoint, checkpoint.read_f32, output, ServedDtype.FLOAT32)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base", "out"]


def test_an_empty_folder_and_missing_parents_are_fine(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(saved(tmp_path / "base", "llama"))
    (tmp_path / "empty").mkdir()
    for output in (tmp_path / "empty", tmp_path / "a" / "b"):
        write_checkpoint(checkpoint, checkpoint.read_f32, output, ServedDtype.FLOAT32)
        assert (output / "model.safetensors").is_file()


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(saved(tmp_path / "base", "llama"))

    def read(name: str, start: int, count: int) -> NDArray[np.float32]:
        raise RuntimeError("lost the weights")

    for threads in (1, 2):
        with pytest.raises(RuntimeError, match="lost the weights"):
            write_checkpoint(checkpoint, read, tmp_path / "out", ServedDtype.FLOAT32, threads=threads)
    assert [path.name for path in tmp_path.iterdir()] == ["base"]


def test_a_full_disk_is_named_before_and_during_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = open_checkpoint(saved(tmp_path / "base", "llama"))
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10))
        with pytest.raises(TransientError, match=r"needs \d+ bytes, the disk has 10 free"):
            write_checkpoint(checkpoint, checkpoint.read_f32, tmp_path / "out", ServedDtype.FLOAT32)

    def full(descriptor: int, data: memoryview, offset: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(TransientError, match="the disk is full"):
            write_checkpoint(checkpoint, checkpoint.read_f32, tmp_path / "out", ServedDtype.FLOAT32)
    assert [path.name for path in tmp_path.iterdir()] == ["base"]
