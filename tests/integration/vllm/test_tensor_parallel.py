"""Two ranks share a model: together they hold every element once, and give the bits of one.

Grouped attention with one key head, which both ranks hold, and a vocabulary that is cut in two and padded.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dartes.checkpoint import open_checkpoint
from dartes.errors import ConfigurationError, ExitCode
from dartes.ids import Iteration
from dartes.journal import JournalRow
from dartes.noise import ServedDtype
from dartes_worker.engines.base import GenerationLimits
from dartes_worker.engines.transformers import TransformersEngine
from dartes_worker.engines.vllm.engine import EngineGone, VllmEngine
from dartes_worker.engines.vllm.settings import VllmSettings
from dartes_worker.weights.replica import replica_of

from .serving import environment
from .tiny_models import write_model

pytestmark = pytest.mark.slow

GREEDY = GenerationLimits(max_new_tokens=8)
PROMPTS = ["3+4=", "what is 7?", "0"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "tiny", "llama-one-kv-head")


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[VllmEngine]:
    settings = VllmSettings(tensor_parallel=2, token_budget=1_024, max_new_tokens=16)
    with environment():
        engine = VllmEngine.load(folder, open_checkpoint(folder), ServedDtype.FLOAT32, 1, "cpu", settings)
        yield engine
        engine.close()


def test_two_ranks_give_the_bits_and_the_answers_of_one(
    engine: VllmEngine, folder: Path, tmp_path: Path
) -> None:
    ours = engine.open_replica()
    peer_engine = TransformersEngine.load(folder, open_checkpoint(folder), ServedDtype.FLOAT32, 1, "cpu")
    peer = replica_of(peer_engine, open_checkpoint(folder), ServedDtype.FLOAT32, 1)
    rows = [JournalRow(Iteration(0), 0, np.arange(4, dtype=np.uint64), np.full(4, 0.02, np.float32))]
    for replica in (ours, peer):
        replica.load_base(b"h" * 32)
        replica.apply(rows)
        replica.write(0, 0.0)
    assert ours.digest() == peer.digest()
    assert ours.served_digests() == peer.served_digests()
    for replica in (ours, peer):
        replica.write(9, 0.05)
    for one in engine.encode(PROMPTS):
        assert engine.generate([one], GREEDY, None) == peer_engine.generate([one], GREEDY, None)
    for replica, name in ((ours, "ours"), (peer, "peer")):
        replica.write_snapshot(tmp_path / name)
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "peer").read_bytes()


def test_what_goes_wrong_in_a_rank_arrives_as_what_it_is(engine: VllmEngine, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigurationError, match="empty"):
        engine._call("dartes_locate", str(tmp_path / "empty"))
    with pytest.raises(FileNotFoundError):
        engine._call("dartes_write_snapshot", str(tmp_path / "none"), {})
    replica = engine.open_replica()
    replica.load_base(b"h" * 32)  # every rank's answer was taken: none is left to be read by this call
    replica.write(0, 0.0)
    expected, found = replica.served_digests()
    assert expected == found


def test_a_rank_that_dies_ends_the_worker_so_that_its_leases_go_elsewhere(engine: VllmEngine) -> None:
    """The last test of this module: nothing is left of the engine."""
    first, second = (worker.proc for worker in engine._engine.model_executor.workers)
    os.kill(second.pid, signal.SIGKILL)
    second.join()
    tokens = engine.encode(PROMPTS)
    with pytest.raises(EngineGone) as caught:
        engine.generate(tokens, GREEDY, None)
    assert caught.value.exit_code == ExitCode.TRANSIENT
    first.join()  # vLLM ends the others
