"""The language-model head multiplies one matrix: its input has no gaps, its weight is not copied per row."""

from typing import Any

import pytest
import torch

from dartes.noise import ServedDtype
from dartes_worker.engines.loading import load_model

from .transformers_kit import GREEDY, Engines, TinyFolder

PROMPTS = ["3+4=", "12+30=", "a", "the sum of 8 and 9 is"]


@pytest.mark.parametrize("family", ["llama", "llama-tied", "gpt2", "gemma3", "opt"])
def test_the_head_sees_contiguous_hidden_states_at_every_step(family: str, engines: Engines) -> None:
    engine = engines(family)
    seen: list[tuple[int, bool]] = []

    def note(_: torch.nn.Module, inputs: tuple[Any, ...]) -> None:
        seen.append((inputs[0].shape[0], inputs[0].is_contiguous()))

    handle = engine._model.get_output_embeddings().register_forward_pre_hook(note)
    try:
        engine.generate(engine.encode(PROMPTS), GREEDY, None)
    finally:
        handle.remove()
    assert len(PROMPTS) in {rows for rows, _ in seen}, "the head was asked for the whole group at once"
    assert all(contiguous for _, contiguous in seen)


@pytest.mark.parametrize("served", [ServedDtype.FLOAT32, ServedDtype.BFLOAT16])
def test_the_last_position_of_many_prompts_costs_no_copy_of_the_heads_weight(
    served: ServedDtype, tiny_folder: TinyFolder
) -> None:
    model = load_model(tiny_folder("llama"), served, "cpu")
    weight = model.get_output_embeddings().weight
    rows = 64
    ids = torch.randint(2, weight.shape[0], (rows, 5), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        hidden = model.model(ids).last_hidden_state[:, -1:, :]
        with torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
        ) as profile:
            logits = model.lm_head(hidden)
    assert not hidden.is_contiguous(), "else there is nothing to be seen"
    most = max(event.self_cpu_memory_usage for event in profile.events())
    per_row_copies = rows * weight.numel() * weight.element_size()
    assert most < per_row_copies / 4
    torch.testing.assert_close(
        logits, torch.nn.functional.linear(hidden.contiguous(), weight), rtol=0, atol=0
    )
