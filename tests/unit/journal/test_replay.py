"""Base model + journal give the live weights, bit for bit, however the work is cut; exports load anywhere."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from dartes.checkpoint import Checkpoint, digest_arrays, open_checkpoint, read_snapshot, write_snapshot
from dartes.ids import Iteration
from dartes.journal import (
    Journal,
    JournalError,
    JournalHeader,
    JournalRow,
    chain,
    export,
    replay_digests,
    replay_onto,
    require_base,
    shapes_of,
)
from dartes.noise import NOISE_VERSION, ServedDtype, reference, tensor_id

Weights = dict[str, NDArray[np.float32]]


def journal_of(checkpoint: Checkpoint, count: int, members: int = 3) -> Journal:
    generator = np.random.default_rng(11)
    rows = []
    for k in range(count):
        seeds = generator.integers(0, 2**64, members + k % 2, dtype=np.uint64)
        coefficients = generator.standard_normal(seeds.size).astype(np.float32) * np.float32(1e-3)
        rows.append(JournalRow(Iteration(k), 0, seeds, coefficients * np.float32(k != 2)))
    header = JournalHeader(
        noise_version=NOISE_VERSION,
        run_seed=5,
        algorithm_digest="",
        algorithm_fields={},
        base_digest=checkpoint.base_digest(),
        data_digest="",
        tensors=tuple(shapes_of(checkpoint)),
    )
    return Journal(header, tuple(rows), chain(header.hash(), rows))


def base_model(path: Path, tied: bool = True) -> Checkpoint:
    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=32,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        tie_word_embeddings=tied,
        bos_token_id=0,
        eos_token_id=1,
    )
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(path)
    return open_checkpoint(path)


def live(checkpoint: Checkpoint, rows: tuple[JournalRow, ...]) -> Weights:
    """What a worker has: whole tensors, one iteration at a time, by the reference implementation."""
    weights = {info.name: checkpoint.read_f32(info.name, 0, info.count) for info in checkpoint.trainable}
    for row in rows:
        for name, values in weights.items():
            reference.apply_updates(values, tensor_id(name), 0, [row.update()])
    return weights


def as_bytes(weights: Weights) -> dict[str, bytes]:
    return {name: values.tobytes() for name, values in sorted(weights.items())}


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_replay_equals_the_live_weights_in_any_number_of_pieces_and_order(tmp_path: Path, parts: int) -> None:
    checkpoint = base_model(tmp_path / "base")
    journal = journal_of(checkpoint, 8)
    expected = live(checkpoint, journal.rows)
    assert as_bytes(expected) != as_bytes(live(checkpoint, ()))
    replayed: Weights = {}
    for part in range(parts):
        # Each piece of the model is rebuilt alone, the last tensors first, the rows in parts + 1 steps.
        names = [info.name for info in checkpoint.trainable][::-1][part::parts]
        share = {name: checkpoint.read_f32(name, 0, checkpoint.tensors[name].count) for name in names}
        for step in np.array_split(np.arange(8), parts + 1):
            replay_onto(share, [journal.rows[k] for k in step], threads=parts)
        replayed |= share
    assert as_bytes(replayed) == as_bytes(expected)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("dtype", ServedDtype)
def test_an_export_loads_with_the_live_weights(tmp_path: Path, tied: bool, dtype: ServedDtype) -> None:
    checkpoint = base_model(tmp_path / "base", tied)
    journal = journal_of(checkpoint, 6)
    result = export(checkpoint, journal, tmp_path / "out", dtype)
    expected = live(checkpoint, journal.rows)
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out", dtype="auto")
    for name, values in expected.items():
        loaded = model.state_dict()[name].flatten()
        assert torch.equal(loaded, torch.from_numpy(values).to(loaded.dtype)), name
        assert str(loaded.dtype) == f"torch.{dtype.value}"
    assert result.digest == digest_arrays(shapes_of(checkpoint), expected)
    assert json.loads((tmp_path / "out" / "dartes.json").read_text()) == {
        "dartes_version": "0.1.0",
        "iteration": 6,
        "journal_hash": journal.last_hash.hex(),
        "base_digest": checkpoint.base_digest(),
        "weight_digest": result.digest.total,
        "dtype": dtype.value,
    }


def test_an_earlier_iteration_can_be_exported_from_the_base_or_a_snapshot(tmp_path: Path) -> None:
    checkpoint = base_model(tmp_path / "base")
    journal = journal_of(checkpoint, 8)
    shapes = shapes_of(checkpoint)
    at_three = live(checkpoint, journal.rows[:3])
    write_snapshot(tmp_path / "snap", Iteration(3), journal.hash_at(3), shapes, at_three)
    snapshot = read_snapshot(tmp_path / "snap")
    for iteration in (3, 6, 8):
        plain = export(
            checkpoint, journal, tmp_path / f"a{iteration}", ServedDtype.FLOAT32, iteration=iteration
        )
        short = export(
            checkpoint,
            journal,
            tmp_path / f"b{iteration}",
            ServedDtype.FLOAT32,
            iteration=iteration,
            snapshot=snapshot,
            threads=2,
        )
        assert plain.digest == short.digest
        assert (
            plain.digest
            == replay_digests(checkpoint, shapes, journal.rows, {iteration}, threads=2)[iteration]
        )
        files = [(tmp_path / f"{k}{iteration}" / "model.safetensors").read_bytes() for k in "ab"]
        assert files[0] == files[1]
    with pytest.raises(JournalError, match="snap: is of iteration 3, after 2"):
        export(checkpoint, journal, tmp_path / "x", ServedDtype.FLOAT32, iteration=2, snapshot=snapshot)
    with pytest.raises(JournalError, match="has 8 iterations, 9 was asked for"):
        export(checkpoint, journal, tmp_path / "x", ServedDtype.FLOAT32, iteration=9)


def test_iteration_zero_is_the_base_model(tmp_path: Path) -> None:
    checkpoint = base_model(tmp_path / "base")
    export(checkpoint, journal_of(checkpoint, 4), tmp_path / "out", ServedDtype.BFLOAT16, iteration=0)
    assert open_checkpoint(tmp_path / "out").base_digest() == checkpoint.base_digest()


def test_a_snapshot_of_another_run_is_refused(tmp_path: Path) -> None:
    checkpoint = base_model(tmp_path / "base")
    journal = journal_of(checkpoint, 4)
    weights = live(checkpoint, ())
    for iteration, row_hash in ((2, bytes(32)), (9, journal.last_hash)):
        write_snapshot(tmp_path / "s", Iteration(iteration), row_hash, shapes_of(checkpoint), weights)
        with pytest.raises(JournalError, match="isn't in this journal: a snapshot of another run"):
            export(
                checkpoint,
                journal,
                tmp_path / "out",
                ServedDtype.FLOAT32,
                snapshot=read_snapshot(tmp_path / "s"),
            )
    shapes = [("w", (2,))]
    write_snapshot(tmp_path / "s", Iteration(2), journal.hash_at(2), shapes, {"w": np.ones(2, np.float32)})
    with pytest.raises(JournalError, match="a snapshot of another model"):
        export(
            checkpoint, journal, tmp_path / "out", ServedDtype.FLOAT32, snapshot=read_snapshot(tmp_path / "s")
        )


def test_another_base_model_is_refused_with_what_differs(tmp_path: Path) -> None:
    checkpoint = base_model(tmp_path / "base")
    header = journal_of(checkpoint, 1).header
    with pytest.raises(JournalError, match="another base model; use the one that the run started from"):
        require_base(dataclasses.replace(header, base_digest="00"), checkpoint)
    with pytest.raises(
        JournalError, match=r"tensor 'lm_head\.weight' has shape \(32, 16\), in the journal None"
    ):
        require_base(header, base_model(tmp_path / "untied", tied=False))
    with pytest.raises(JournalError, match="noise version 2"):
        require_base(dataclasses.replace(header, noise_version=2), checkpoint)


def test_a_tensor_of_many_pieces_is_replayed_and_exported_bit_for_bit(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    values = torch.randn(2**21 + 77).to(torch.float16)
    save_file({"w": values}, tmp_path / "base" / "model.safetensors")
    checkpoint = open_checkpoint(tmp_path / "base")
    journal = journal_of(checkpoint, 2, members=2)
    export(checkpoint, journal, tmp_path / "out", ServedDtype.FLOAT32, threads=2)
    expected = live(checkpoint, journal.rows)["w"]
    replayed = {"w": checkpoint.read_f32("w", 0, expected.size)}
    replay_onto(replayed, journal.rows)
    assert replayed["w"].tobytes() == expected.tobytes()
    assert open_checkpoint(tmp_path / "out").read_f32("w", 0, expected.size).tobytes() == expected.tobytes()
