"""Per family: the map is whole, and what is written through it answers as `transformers` does.

In float32 greedy answers agree token for token. In bfloat16 two implementations may round an activation
differently and so break a tie differently, so there the served weights are compared, bit for bit.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from dartes.checkpoint import open_checkpoint
from dartes_worker.weights.stretch import Stretch

from .serving import Values, environment, perturbed, served_by_vllm, transformers_answers, vllm_answers
from .tiny_models import FAMILIES, write_model

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def prepared() -> Iterator[None]:
    with environment():
        yield


def the_model(llm: Any) -> torch.nn.Module:
    (model,) = llm.collective_rpc(lambda worker: worker.model_runner.get_model())
    assert isinstance(model, torch.nn.Module)
    return model


def write(model: torch.nn.Module, stretches: Sequence[Stretch], values: Values) -> None:
    """Write by hand what the stretches say, in the format of the served tensor."""
    from dartes_worker.engines.vllm.mapping import served_tensors

    served = served_tensors(model)
    for stretch in stretches:
        for row in map(stretch.row, range(stretch.rows)):
            part = values[row.name][row.start : row.start + row.length]
            served[row.target][row.offset : row.offset + row.length] = torch.from_numpy(part)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_member_written_through_the_map_answers_as_transformers_does(family: str, tmp_path: Path) -> None:
    from dartes_worker.engines.vllm.coverage import owned
    from dartes_worker.engines.vllm.extension import model_digest
    from dartes_worker.engines.vllm.mapping import locate

    folder = write_model(tmp_path / "model", family)
    checkpoint = open_checkpoint(folder)
    with served_by_vllm(folder, "float32") as llm:
        model = the_model(llm)
        before = model_digest(model)
        stretches = locate(model, checkpoint.trainable)
        expected = {info.name: info.count for info in checkpoint.trainable}
        assert all(stretch.owned for stretch in owned([stretches], expected, family)[0])
        write(model, stretches, perturbed(checkpoint, 0, 0.0))
        assert model_digest(model) == before
        answered = []
        for seed, sigma in ((0, 0.0), (5, 0.05)):
            values = perturbed(checkpoint, seed, sigma)
            write(model, stretches, values)
            answered.append(vllm_answers(llm))
            assert answered[-1] == transformers_answers(folder, values)
        assert answered[0] != answered[1]


@pytest.mark.parametrize("family", ["smollm2", "gemma2", "qwen3-moe"])
def test_in_bfloat16_the_map_is_whole_and_the_parent_restores_every_bit(family: str, tmp_path: Path) -> None:
    from dartes_worker.engines.vllm.extension import model_digest
    from dartes_worker.engines.vllm.mapping import locate

    folder = write_model(tmp_path / "model", family)
    checkpoint = open_checkpoint(folder)
    with served_by_vllm(folder, "bfloat16") as llm:
        model = the_model(llm)
        before = model_digest(model)
        stretches = locate(model, checkpoint.trainable)
        assert sum(stretch.count for stretch in stretches) == checkpoint.parameter_count
        write(model, stretches, perturbed(checkpoint, 5, 0.05))
        assert model_digest(model) != before
        write(model, stretches, perturbed(checkpoint, 0, 0.0))
        assert model_digest(model) == before
