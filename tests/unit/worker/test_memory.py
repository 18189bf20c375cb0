"""Loading takes the float32 master and little more; exporting takes little, whatever the model's size."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

pytestmark = pytest.mark.slow

# Runs in a process of its own, whose peak is nobody else's. Everything that is loaded once (imports, the
# compiled kernel, the table) is in before the count starts; `VmHWM` is the peak of resident memory.
SCRIPT = """
import json, sys
from pathlib import Path
import numpy as np
from dartes.checkpoint import open_checkpoint
from dartes.ids import Iteration
from dartes.journal import Journal, JournalHeader, JournalRow, chain, export, replay_onto, shapes_of
from dartes.noise import ServedDtype
from dartes.noise.kernel import digest_fp32
from dartes_worker.master import MasterWeights

def memory(field):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024

folder, work, what = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
checkpoint = open_checkpoint(folder)
header = JournalHeader(1, 5, "", {}, checkpoint.base_digest(), "", tuple(shapes_of(checkpoint)))
rows = [JournalRow(Iteration(0), 0, np.arange(2, dtype=np.uint64), np.full(2, 1e-4, np.float32))]
replay_onto({"w": np.zeros(64, np.float32)}, rows)
digest_fp32(np.zeros(64, np.float32), 0, 0)
Path("/proc/self/clear_refs").write_text("5")
before = memory("VmRSS")
if what == "export":
    journal = Journal(header, tuple(rows), chain(header.hash(), rows))
    result = export(checkpoint, journal, work / "out", ServedDtype.BFLOAT16, threads=2).digest.total
elif what == "resume":
    result = MasterWeights.load_snapshot(work / "s", checkpoint, ServedDtype.BFLOAT16).digest().total
else:
    master = MasterWeights.load(checkpoint, ServedDtype.BFLOAT16, header.hash())
    master.apply(rows)
    master.squared_distance(checkpoint)
    master.served_digest_expected()
    result = master.write_snapshot(work / "s").total
print(json.dumps({"extra": memory("VmHWM") - before, "digest": result}))
"""

ELEMENTS = 50_000_000
MASTER_BYTES = 4 * ELEMENTS
ALLOWED = 64 * 2**20


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("large")
    large = ELEMENTS - 8_000_000
    tensors = {
        "model.embed_tokens.weight": torch.full((large // 1000, 1000), 0.02, dtype=torch.bfloat16),
        "model.layers.0.w": torch.full((8000, 1000), 0.5, dtype=torch.bfloat16),
    }
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
    save_file(tensors, folder / "model.safetensors")
    return folder


def extra_memory(model: Path, work: Path, what: str) -> tuple[int, str]:
    command = [sys.executable, "-c", SCRIPT, str(model), str(work), what]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    result = json.loads(done.stdout)
    return result["extra"], result["digest"]


def test_memory_is_bounded_and_every_way_gives_the_same_weights(model: Path, tmp_path: Path) -> None:
    load, loaded = extra_memory(model, tmp_path, "load and snapshot")
    assert 0.99 * MASTER_BYTES <= load <= MASTER_BYTES + ALLOWED
    resume, resumed = extra_memory(model, tmp_path, "resume")
    assert 0.99 * MASTER_BYTES <= resume <= MASTER_BYTES + ALLOWED
    export, exported = extra_memory(model, tmp_path, "export")
    assert export <= ALLOWED
    assert loaded == resumed == exported
