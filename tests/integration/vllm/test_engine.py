"""The vLLM engine beside the `transformers` engine: the same digests and answers, token for token.

Both serve the same random model in float32, where no two logits are close enough for the order of a sum to
decide between them. One vLLM serves all tests of this module.
"""

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dartes.checkpoint import SnapshotError, open_checkpoint, read_snapshot
from dartes.errors import ConfigurationError
from dartes.ids import Iteration
from dartes.journal import JournalError, JournalRow
from dartes.noise import ServedDtype
from dartes_worker.engines.base import ContinuousEngine, Engine, GenerationLimits, generate_all
from dartes_worker.engines.transformers import TransformersEngine
from dartes_worker.engines.vllm.engine import VllmEngine
from dartes_worker.engines.vllm.settings import VllmSettings
from dartes_worker.weights.replica import Replica, replica_of

from .serving import environment
from .tiny_models import write_model

pytestmark = pytest.mark.slow

HEADER_HASH = b"h" * 32
GREEDY = GenerationLimits(max_new_tokens=12)
LONG = "the quick brown fox jumps over the lazy dog " * 4
PROMPTS = ["3+4=", "12*3", "what is 7?", LONG + "a", LONG + "bc", "0"]
ROWS = [
    JournalRow(
        Iteration(k),
        0,
        np.arange(6, dtype=np.uint64) + 100 * k,
        np.linspace(-0.02, 0.03, 6).astype(np.float32),
    )
    for k in range(3)
]


@dataclass
class Side:
    """An engine with its replica of the weights."""

    engine: Engine
    replica: Replica

    def answers(self, seed: int = 0, sigma: float = 0.0) -> list[str]:
        """Each prompt answered by itself, after a write."""
        self.replica.write(seed, sigma)
        tokens = self.engine.encode(PROMPTS)
        return [self.engine.generate([one], GREEDY, None)[0].text for one in tokens]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose head is tied and whose vocabulary vLLM pads; long enough for blocks to be shared."""
    folder = write_model(tmp_path_factory.mktemp("models") / "tiny", "smollm2")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 512}))
    return folder


def side_of(engine: Engine, folder: Path) -> Side:
    replica = replica_of(engine, open_checkpoint(folder), ServedDtype.FLOAT32, 1)
    replica.load_base(HEADER_HASH)
    return Side(engine, replica)


@pytest.fixture(scope="module")
def vllm_engine(folder: Path) -> Iterator[VllmEngine]:
    settings = VllmSettings(token_budget=4_096, max_new_tokens=32)
    with environment():
        engine = VllmEngine.load(folder, open_checkpoint(folder), ServedDtype.FLOAT32, 1, "cpu", settings)
        yield engine
        engine.close()


@pytest.fixture
def ours(vllm_engine: VllmEngine, folder: Path) -> Side:
    """The vLLM engine with the base model's weights."""
    return side_of(vllm_engine, folder)


@pytest.fixture
def peer(folder: Path) -> Side:
    """The `transformers` engine with the base model's weights."""
    engine = TransformersEngine.load(folder, open_checkpoint(folder), ServedDtype.FLOAT32, 1, "cpu")
    return side_of(engine, folder)


def test_the_answers_are_those_of_the_peer_for_parent_members_and_after_updates(
    ours: Side, peer: Side
) -> None:
    parent = ours.answers()
    assert parent == peer.answers()
    member = ours.answers(11, 0.05)
    assert member == peer.answers(11, 0.05) != parent
    for side in (ours, peer):
        side.replica.apply(ROWS)
    updated = ours.answers()
    assert updated == peer.answers() != parent
    assert ours.answers(12, 0.05) == peer.answers(12, 0.05)


def test_the_same_coefficients_give_the_same_digest(ours: Side, peer: Side) -> None:
    assert ours.replica.digest() == peer.replica.digest()
    for rows in (ROWS[:1], ROWS[1:]):
        ours.replica.apply(rows)
    peer.replica.apply(ROWS)
    assert ours.replica.digest() == peer.replica.digest()
    assert ours.replica.version == peer.replica.version


def test_what_the_engine_reads_is_what_was_written(ours: Side) -> None:
    ours.replica.write(0, 0.0)
    expected, found = ours.replica.served_digests()
    assert expected == found
    ours.replica.write(3, 0.01)
    expected, found = ours.replica.served_digests()
    assert expected.total != found.total
    assert len(expected.differing(found)) == len(expected.tensors)  # a member reaches every tensor


def test_the_parent_brings_the_model_back_to_what_the_loader_made(
    vllm_engine: VllmEngine, ours: Side, folder: Path
) -> None:
    """Padding, buffers and all: nothing is left of the search for the weights, nor of members."""
    from safetensors.torch import load_file

    ours.replica.write(5, 0.1)
    ours.replica.write(0, 0.0)
    before = vllm_engine._call("dartes_model_digest")
    (model,) = vllm_engine._call("dartes_model")
    model.load_weights(load_file(folder / "model.safetensors").items())
    assert vllm_engine._call("dartes_model_digest") == before


def test_a_thousand_writes_leave_master_and_answers_as_they_were(ours: Side) -> None:
    digest, parent = ours.replica.digest(), ours.answers()
    for seed in range(1_000):
        ours.replica.write(seed, 0.01)
    assert ours.replica.digest() == digest
    assert ours.answers() == parent


def test_groups_come_complete_and_whatever_else_runs_they_are_answered_alike(ours: Side) -> None:
    ours.replica.write(0, 0.0)
    tokens = ours.engine.encode(PROMPTS)
    groups = [[tokens[0], tokens[3]], [tokens[1]], [tokens[2], tokens[4], tokens[5]]]
    found = dict(generate_all(ours.engine, groups, GREEDY, None))
    assert sorted(found) == [0, 1, 2]
    for number, group in enumerate(groups):
        assert found[number] == [ours.engine.generate([one], GREEDY, None)[0] for one in group]


def test_answers_end_at_end_tokens_stop_strings_and_the_limit_as_the_peers_do(ours: Side, peer: Side) -> None:
    for side in (ours, peer):
        side.replica.write(0, 0.0)
    tokens = ours.engine.encode(PROMPTS)
    text = ours.engine.generate([tokens[0]], GREEDY, None)[0].text
    stops = (text[3:5], text[7])
    for limits in (GREEDY, GenerationLimits(40, stop=stops), GenerationLimits(1)):
        for one in tokens:
            assert ours.engine.generate([one], limits, None) == peer.engine.generate([one], limits, None)
    assert stops[0] not in ours.engine.generate([tokens[0]], GenerationLimits(40, stop=stops), None)[0].text
    assert ours.engine.generate([tokens[0]], GenerationLimits(1), None)[0].truncated


def test_sampling_depends_on_the_seed_and_not_on_what_runs_beside(ours: Side) -> None:
    ours.replica.write(0, 0.0)
    hot = GenerationLimits(12, temperature=1.0, top_p=0.9)
    group = ours.engine.encode(PROMPTS)
    alone = ours.engine.generate(group, hot, 2**64 - 1)
    both = dict(generate_all(ours.engine, [group[:2], group], hot, [7, 2**64 - 1]))
    assert both[1] == alone
    assert ours.engine.generate(group, hot, 8) != alone
    assert len({answer.text for answer in ours.engine.generate([group[0]] * 4, hot, 5)}) > 1
    with pytest.raises(ValueError, match="sampling needs a seed"):
        ours.engine.generate(group, hot, None)


def test_nothing_is_written_while_sequences_run(ours: Side) -> None:
    ours.replica.write(0, 0.0)
    tokens = ours.engine.encode(PROMPTS)
    early = ours.engine.generate([tokens[0]], GREEDY, None)[0].text[:4]
    limits = GenerationLimits(30, stop=(early,))
    running = generate_all(ours.engine, [[one] for one in tokens], limits, None)
    assert next(running)[0] == 0
    before = ours.replica.served_digests()
    with pytest.raises(RuntimeError, match="while sequences run"):
        ours.replica.write(1, 0.01)
    assert ours.replica.served_digests() == before
    running.close()  # type: ignore[attr-defined]
    ours.replica.write(1, 0.01)


def test_a_snapshot_is_the_peers_and_is_read_back(ours: Side, peer: Side, tmp_path: Path) -> None:
    for side, name in ((ours, "ours"), (peer, "peer")):
        side.replica.apply(ROWS[:2])
        side.replica.write_snapshot(tmp_path / name)
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "peer").read_bytes()
    digest = ours.replica.digest()
    ours.replica.discard()
    assert ours.replica.version is None
    assert ours.replica.load_snapshot(tmp_path / "peer").iteration == 2
    assert ours.replica.digest() == digest
    assert read_snapshot(tmp_path / "ours").digest == digest.total
    with pytest.raises(JournalError, match="can't be applied to weights at 2"):
        ours.replica.apply(ROWS[:1])


def test_a_damaged_snapshot_or_one_of_another_model_is_refused(
    ours: Side, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    ours.replica.write_snapshot(tmp_path / "s")
    damaged = bytearray((tmp_path / "s").read_bytes())
    damaged[-5] ^= 1
    (tmp_path / "damaged").write_bytes(damaged)
    with pytest.raises(SnapshotError, match="damaged"):
        ours.replica.load_snapshot(tmp_path / "damaged")
    assert ours.replica.version is None
    other = write_model(tmp_path / "other", "llama")
    engine = TransformersEngine.load(other, open_checkpoint(other), ServedDtype.FLOAT32, 1, "cpu")
    side_of(engine, other).replica.write_snapshot(tmp_path / "o")
    with pytest.raises(SnapshotError, match="of another model"):
        ours.replica.load_snapshot(tmp_path / "o")


def test_the_engine_says_what_it_is_and_where_the_master_lies(vllm_engine: VllmEngine) -> None:
    assert isinstance(vllm_engine, ContinuousEngine)
    fingerprint: dict[str, Any] = vllm_engine.fingerprint().to_dict()
    assert fingerprint["engine"] == "vllm"
    assert fingerprint["versions"]["tensor_parallel_size"] == "1"
    assert "master weights: host memory" in vllm_engine.placement
    assert vllm_engine.max_model_len == 512
    tail, alone = vllm_engine.long_tail()
    assert tail >= alone >= 0


@pytest.mark.usefixtures("vllm_engine")
def test_what_vllm_changes_in_its_process_is_put_back() -> None:
    """Graders are started as processes of their own, and must not preload what vLLM wants preloaded."""
    assert "gomp" not in os.environ.get("LD_PRELOAD", "")
    torch.set_num_threads(1)
    assert torch.set_num_threads.__module__ != "vllm.v1.worker.cpu_worker"


def test_a_model_that_vllm_does_not_serve_is_refused_in_its_words(
    vllm_engine: VllmEngine, folder: Path, tmp_path: Path
) -> None:
    del vllm_engine  # the other one lives; this one does not come to be
    other = shutil.copytree(folder, tmp_path / "other")
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps(config | {"architectures": ["NoSuchForCausalLM"]}))
    with pytest.raises(ConfigurationError, match=r"vLLM 0\.32\.0 does not serve it: .*NoSuchForCausalLM"):
        VllmEngine.load(other, open_checkpoint(other), ServedDtype.FLOAT32, 1, "cpu", VllmSettings())
