"""A model folder is read exactly, digested independently of its files, and refused by name when unusable."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from dartes.checkpoint import Checkpoint, CheckpointError, folder, open_checkpoint
from dartes.noise import ServedDtype

Tensors = dict[str, torch.Tensor]


def write_model(
    path: Path, tensors: Tensors, config: Mapping[str, object] | None = None, shards: int = 1
) -> Path:
    """A model folder made by the safetensors library, in one file or dealt out to shards."""
    path.mkdir(parents=True, exist_ok=True)
    names = sorted(tensors)
    if shards == 1:
        save_file(tensors, path / "model.safetensors", {"format": "pt"})
    else:
        weight_map: dict[str, str] = {}
        for k in range(shards):
            file = f"model-{k + 1:05d}-of-{shards:05d}.safetensors"
            save_file({name: tensors[name] for name in names[k::shards]}, path / file)
            weight_map |= dict.fromkeys(names[k::shards], file)
        index = {"metadata": {}, "weight_map": weight_map}
        (path / "model.safetensors.index.json").write_text(json.dumps(index))
    if config is not None:
        (path / "config.json").write_text(json.dumps(config))
    return path


def small_model(dtype: torch.dtype = torch.bfloat16) -> Tensors:
    generator = torch.Generator().manual_seed(7)
    shapes = {
        "model.embed_tokens.weight": (12, 4),
        "model.layers.0.w": (5, 3),
        "model.norm.weight": (4,),
        "z.scale": (),
    }
    return {name: torch.randn(shape, generator=generator).to(dtype) for name, shape in shapes.items()}


def only_names(checkpoint: Checkpoint) -> list[str]:
    return [info.name for info in checkpoint.trainable]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_values_are_read_exactly_at_any_offset(tmp_path: Path, dtype: torch.dtype) -> None:
    tensors = small_model(dtype)
    # Zeros, subnormals, the largest finite value and infinity survive too.
    info = torch.finfo(dtype)
    tensors["edge"] = torch.tensor([0.0, -0.0, info.tiny, info.tiny / 4, info.max, -torch.inf], dtype=dtype)
    checkpoint = open_checkpoint(write_model(tmp_path / "m", tensors))
    for name, tensor in tensors.items():
        expected = tensor.float().numpy().ravel()
        for start in range(expected.size):
            got = checkpoint.read_f32(name, start, expected.size - start)
            assert got.dtype == np.float32
            assert got.tobytes() == expected[start:].tobytes()


def test_a_tensor_larger_than_the_buffer_is_read_exactly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "BUFFER_BYTES", 64)
    tensors = {"w": torch.randn(1000).to(torch.bfloat16)}
    checkpoint = open_checkpoint(write_model(tmp_path / "m", tensors))
    assert checkpoint.read_f32("w", 3, 990).tobytes() == tensors["w"].float().numpy()[3:993].tobytes()


def test_a_range_outside_the_tensor_is_refused(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(write_model(tmp_path / "m", small_model()))
    with pytest.raises(ValueError, match=r"model\.norm\.weight: elements 2\.\.5 of 4"):
        checkpoint.read_f32("model.norm.weight", 2, 3)


def test_trainable_tensors_are_sorted_and_counted(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(write_model(tmp_path / "m", small_model(), shards=3))
    assert only_names(checkpoint) == sorted(small_model())
    assert checkpoint.parameter_count == 48 + 15 + 4 + 1
    assert checkpoint.dtype is ServedDtype.BFLOAT16
    assert checkpoint.tensors["model.layers.0.w"].shape == (5, 3)


@pytest.mark.parametrize("shards", [2, 3, 4])
def test_the_digest_does_not_depend_on_how_files_are_cut(tmp_path: Path, shards: int) -> None:
    whole = open_checkpoint(write_model(tmp_path / "whole", small_model())).base_digest()
    cut = open_checkpoint(write_model(tmp_path / "cut", small_model(), shards=shards)).base_digest()
    assert whole == cut
    assert len(whole) == 64


@pytest.mark.parametrize("what", ["value", "name", "shape", "dtype", "extra buffer"])
def test_the_digest_depends_on_everything_in_the_model(tmp_path: Path, what: str) -> None:
    changed = small_model()
    weights = changed.pop("model.layers.0.w")
    changed["other" if what == "name" else "model.layers.0.w"] = {
        "value": torch.cat([weights.flatten()[:-1], -weights.flatten()[-1:]]).reshape(weights.shape),
        "shape": weights.reshape(3, 5),
        "dtype": weights.view(torch.float16),
    }.get(what, weights)
    if what == "extra buffer":
        changed["rotary.inv_freq"] = torch.ones(2)
    before = open_checkpoint(write_model(tmp_path / "a", small_model())).base_digest()
    assert open_checkpoint(write_model(tmp_path / "b", changed)).base_digest() != before


TIED = {"tie_word_embeddings": True}
UNTIED = {"tie_word_embeddings": False}


@pytest.mark.parametrize(
    ("config", "equal", "trained"),
    [
        (TIED, True, False),
        ({"text_config": TIED}, True, False),
        ({}, True, False),
        ({}, False, True),
        (UNTIED, True, True),
        (UNTIED, False, True),
    ],
)
def test_a_head_is_trained_unless_it_repeats_its_embedding(
    tmp_path: Path, config: dict[str, object], equal: bool, trained: bool
) -> None:
    tensors = small_model()
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"] * (1 if equal else 2)
    checkpoint = open_checkpoint(write_model(tmp_path / "m", tensors, config))
    assert ("lm_head.weight" in only_names(checkpoint)) is trained
    left = {item.info.name: item.tied_to for item in checkpoint.left_alone}
    assert left == ({} if trained else {"lm_head.weight": "model.embed_tokens.weight"})


def test_a_redundant_head_does_not_change_the_digest(tmp_path: Path) -> None:
    with_head = small_model()
    with_head["lm_head.weight"] = with_head["model.embed_tokens.weight"].clone()
    dropped = open_checkpoint(write_model(tmp_path / "a", small_model(), TIED)).base_digest()
    assert open_checkpoint(write_model(tmp_path / "b", with_head, TIED)).base_digest() == dropped


def test_buffers_are_listed_and_left_alone(tmp_path: Path) -> None:
    tensors = small_model()
    tensors["model.layers.0.rotary_emb.inv_freq"] = torch.ones(4)
    tensors["h.0.attn.bias"] = torch.ones(1, 1, 8, 8)
    tensors["h.0.attn.masked_bias"] = torch.tensor(-1e4)
    tensors["embeddings.position_ids"] = torch.arange(8)
    tensors["proj.attn.bias"] = torch.ones(8, dtype=torch.bfloat16)
    checkpoint = open_checkpoint(write_model(tmp_path / "m", tensors))
    assert only_names(checkpoint) == sorted([*small_model(), "proj.attn.bias"])
    assert {item.info.name: item.reason for item in checkpoint.left_alone} == {
        "model.layers.0.rotary_emb.inv_freq": "buffer",
        "h.0.attn.bias": "causal mask",
        "h.0.attn.masked_bias": "buffer",
        "embeddings.position_ids": "buffer",
    }


def _no_folder(path: Path) -> None:
    path.rmdir()


def _only(name: str) -> Callable[[Path], object]:
    return lambda path: (path / name).write_bytes(b"x")


def _tensors(extra: Tensors, config: Mapping[str, object] | None = None) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        write_model(path, small_model() | extra, config)

    return make


def _missing_shard(path: Path) -> None:
    write_model(path, small_model(), shards=2)
    (path / "model-00002-of-00002.safetensors").unlink()


def _index_edit(edit: Callable[[dict[str, str]], None]) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        write_model(path, small_model(), shards=2)
        index = path / "model.safetensors.index.json"
        weight_map = json.loads(index.read_text())["weight_map"]
        edit(weight_map)
        index.write_text(json.dumps({"weight_map": weight_map}))

    return make


def _twice(path: Path) -> None:
    write_model(path, small_model(), shards=2)
    save_file(small_model(), path / "model-00002-of-00002.safetensors")


def _raw_header(header: object) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        raw = header if isinstance(header, bytes) else json.dumps(header).encode()
        (path / "model.safetensors").write_bytes(len(raw).to_bytes(8, "little") + raw + bytes(8))

    return make


def _entry(**fields: object) -> Callable[[Path], None]:
    return _raw_header({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} | fields})


REFUSALS: dict[str, tuple[Callable[[Path], object], str]] = {
    "no folder": (_no_folder, "no such folder"),
    "empty folder": (lambda _: None, "no weights: neither model.safetensors nor"),
    "torch pickle": (
        _only("pytorch_model.bin"),
        "weights only as pytorch_model.bin, which isn't read.*save_pretrained",
    ),
    "gguf": (_only("weights.gguf"), "weights only as weights.gguf"),
    "shard without index": (
        _only("model-00001-of-00002.safetensors"),
        "neither model.safetensors nor .*index",
    ),
    "missing shard": (_missing_shard, "shard model-00002-of-00002.safetensors is missing"),
    "missing tensor": (
        _index_edit(lambda m: m.update({"model.gone": "model-00001-of-00002.safetensors"})),
        "'model.gone' is missing from model-00001-of-00002.safetensors",
    ),
    "tensor in another shard": (
        _index_edit(lambda m: m.update({"z.scale": "model-00001-of-00002.safetensors"})),
        "'z.scale' is missing from model-00001",
    ),
    "path out of the folder": (
        _index_edit(lambda m: m.update({"w": "../other.safetensors"})),
        "'../other.safetensors' must be a .safetensors file in the same folder",
    ),
    "tensor twice": (_twice, "'model.embed_tokens.weight' is in model-00001.* and model-00002"),
    "int8": (
        _tensors({"q.weight": torch.ones(4, dtype=torch.int8)}),
        "'q.weight' is stored as I8.*unquantised",
    ),
    "fp8": (_tensors({"q.weight": torch.ones(4).to(torch.float8_e4m3fn)}), "'q.weight' is stored as F8_E4M3"),
    "gptq": (_tensors({"q.qweight": torch.ones(4, dtype=torch.int32)}), "'q.qweight' belongs to quantised"),
    "quantised by config": (_tensors({}, {"quantization_config": {"bits": 4}}), "has a quantization_config"),
    "float64": (_tensors({"d.weight": torch.ones(4).double()}), "'d.weight' is stored as F64.*float32 first"),
    "head not tied": (
        _tensors({"lm_head.weight": torch.zeros(12, 4).to(torch.bfloat16)}, TIED),
        "'lm_head.weight' differs from model.embed_tokens.weight; set tie_word_embeddings: false",
    ),
    "buffers only": (
        lambda path: write_model(path, {"inv_freq": torch.ones(2)}),
        "hold no trainable tensor",
    ),
    "config no object": (
        lambda path: (write_model(path, small_model()) / "config.json").write_text("[]"),
        "object",
    ),
    "config no json": (
        lambda path: (write_model(path, small_model()) / "config.json").write_text("{"),
        "valid JSON",
    ),
    "empty file": (lambda path: (path / "model.safetensors").write_bytes(b""), "0 bytes is too short"),
    "header bomb": (
        lambda path: (path / "model.safetensors").write_bytes(b"\xff" * 64),
        "header of 18446744073709551615 bytes, at most 100000000",
    ),
    "header cut": (
        lambda path: (path / "model.safetensors").write_bytes((500).to_bytes(8, "little") + b"{"),
        "truncated: the header alone needs 508 bytes, the file has 9",
    ),
    "header no json": (_raw_header(b"{nonsense"), "isn't valid JSON"),
    "header nested": (_raw_header(b"[" * 100_000), "isn't valid JSON"),
    "header a list": (_raw_header([]), "isn't a JSON object"),
    "name twice": (_raw_header(b'{"w":1,"w":2}'), "a name stands twice"),
    "metadata no text": (_raw_header({"__metadata__": {"a": 1}}), "__metadata__ must map strings"),
    "entry no object": (_raw_header({"w": 3}), "its entry isn't an object"),
    "long name": (_raw_header({"w" * 5000: {}}), "the name has 5000 bytes, at most 4096"),
    "lone surrogate": (_raw_header(b'{"\\ud800": {}}'), "isn't valid Unicode"),
    "unknown dtype": (_entry(dtype="F4"), "dtype 'F4' isn't one of F64, F32"),
    "negative shape": (_entry(shape=[-2]), "shape must be"),
    "fractional shape": (_entry(shape=[2.0]), "shape must be"),
    "deep shape": (_entry(shape=[1] * 17), "at most 16"),
    "offsets and shape differ": (_entry(shape=[3]), "is 12 bytes, but its offsets span 8"),
    "overlap": (
        _raw_header(
            {
                "v": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
                "w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
            }
        ),
        "'w' overlaps another",
    ),
    "hole": (_entry(shape=[1], data_offsets=[4, 8]), "'w' leaves a hole before it"),
    "bytes of nobody": (_entry(shape=[1], data_offsets=[0, 4]), "4 belong to no tensor"),
    "data cut": (_entry(shape=[4], data_offsets=[0, 16]), r"truncated: expected \d+ bytes, .* \(8 missing\)"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_an_unusable_folder_is_refused_by_name(tmp_path: Path, case: str) -> None:
    make, message = REFUSALS[case]
    path = tmp_path / "model"
    path.mkdir()
    make(path)
    with pytest.raises(CheckpointError, match=message):
        open_checkpoint(path)


def test_colliding_noise_ids_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "tensor_id", lambda name: len(name) % 2)
    write_model(tmp_path / "m", small_model())
    with pytest.raises(CheckpointError, match="have the same noise id"):
        open_checkpoint(tmp_path / "m")


def test_a_file_that_shrinks_while_in_use_is_an_error_with_its_name(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(write_model(tmp_path / "m", small_model()))
    file = tmp_path / "m" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-70])
    with pytest.raises(CheckpointError, match=r"model\.safetensors: ends inside tensor"):
        checkpoint.base_digest()


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_damage_is_refused_or_changes_the_digest_and_never_crashes(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("damage")
    write_model(path, small_model())
    file = path / "model.safetensors"
    good = file.read_bytes()
    header_end = 8 + int.from_bytes(good[:8], "little")
    before = open_checkpoint(path).base_digest()
    damaged = bytearray(good)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(good)))
    damaged = damaged[: cut if cut < len(good) // 2 else len(good)]
    file.write_bytes(damaged)
    try:
        digest = open_checkpoint(path).base_digest()
    except CheckpointError:
        return
    if damaged[:header_end] == good[:header_end]:
        assert (digest == before) is (damaged == good)
