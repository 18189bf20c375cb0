"""The `transformers` engine: the answers of `model.generate`, repeatable, under the job's limits alone."""

import logging
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from dartes.checkpoint import open_checkpoint
from dartes.noise import ServedDtype
from dartes.noise.dtypes import round_to
from dartes.tasks.base import Message
from dartes_worker.engines.base import Generation, GenerationLimits

from .transformers_kit import GREEDY, EditedCopy, Engines, TinyFolder, load

PROMPTS = ["3+4=", "12+30=", "a", "the sum of 8 and 9 is"]
SHARING = [f"you are a calculator. q: {a}+{b}= a:" for a, b in ((3, 4), (12, 5), (7, 77), (10, 2))]


def alone(folder: Path, tokens: list[int], new: int) -> list[int]:
    """Generate greedily without batch, padding or cache: the plainest loop there is."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    out = list(tokens)
    with torch.no_grad():
        for _ in range(new):
            out.append(int(model(torch.tensor([out]), use_cache=False).logits[0, -1].argmax()))
            if out[-1] == 1:
                break
    return out[len(tokens) :]


@pytest.mark.parametrize("family", ["llama", "gpt2", "qwen3", "gemma3", "mixtral"])
@pytest.mark.parametrize("prompts", [PROMPTS, SHARING], ids=["different", "sharing-a-beginning"])
def test_a_group_gets_the_answers_that_each_prompt_gets_alone(
    family: str,
    prompts: list[str],
    tiny_folder: TinyFolder,
    engines: Engines,
) -> None:
    engine = engines(family)
    group = engine.encode(prompts)
    answers = engine.generate(group, GREEDY, None)
    for tokens, answer in zip(group, answers, strict=True):
        expected = alone(tiny_folder(family), tokens, GREEDY.max_new_tokens)
        assert answer.token_count == len(expected)
        assert answer.text == engine._encoder.decode([expected])[0]
        assert answer.truncated == (expected[-1] != 1)


def test_the_same_group_gets_the_same_answers_always(
    engines: Engines,
) -> None:
    engine = engines("llama")
    group = engine.encode(PROMPTS)
    first = engine.generate(group, GREEDY, None)
    engine.generate(engine.encode(["other"]), GenerationLimits(3, temperature=1.0), 5)
    engine.weights_changed()
    assert engine.generate(group, GREEDY, None) == first


@pytest.mark.parametrize("served", list(ServedDtype))
def test_a_parent_written_back_answers_as_a_fresh_load_does(
    served: ServedDtype, tiny_folder: TinyFolder
) -> None:
    checkpoint = open_checkpoint(tiny_folder("llama-tied"))
    engine = load(checkpoint.folder, served)
    group = engine.encode(PROMPTS)
    fresh = engine.generate(group, GREEDY, None)

    def write(scale: float) -> None:
        generator = np.random.default_rng(1)
        for segment in engine.segments():
            values = checkpoint.read_f32(segment.name, segment.start, segment.count)
            values += np.float32(scale) * generator.normal(size=segment.count).astype(np.float32)
            assert isinstance(segment.storage, np.ndarray)
            segment.storage[:] = round_to(served, values)
        engine.weights_changed()

    write(0.5)
    assert engine.generate(group, GREEDY, None) != fresh
    write(0.0)
    assert engine.generate(group, GREEDY, None) == fresh


def test_sampling_is_decided_by_its_seed(engines: Engines) -> None:
    engine = engines("llama")
    group = engine.encode(PROMPTS)
    limits = GenerationLimits(max_new_tokens=8, temperature=1.5, top_p=0.95)
    first = engine.generate(group, limits, 2**64 - 1)
    engine.generate(group, limits, 4)
    assert engine.generate(group, limits, 2**64 - 1) == first
    assert engine.generate(group, limits, 4) != first
    with pytest.raises(ValueError, match="seed"):
        engine.generate(group, limits, None)


def test_a_tiny_nucleus_is_greedy(engines: Engines) -> None:
    engine = engines("llama")
    group = engine.encode(PROMPTS)
    nucleus = GenerationLimits(max_new_tokens=12, temperature=1.0, top_p=1e-6)
    assert engine.generate(group, nucleus, 3) == engine.generate(group, GREEDY, None)


def test_sampling_defaults_of_the_folder_are_not_applied_and_said_so(
    edited_copy: EditedCopy,
    engines: Engines,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    folder = edited_copy(
        "llama",
        "generation_config.json",
        do_sample=True,
        temperature=0.3,
        top_k=1,
        repetition_penalty=5.0,
        min_new_tokens=9,
    )
    engine = load(folder)
    group = engine.encode(PROMPTS)
    assert engine.generate(group, GREEDY, None) == engines("llama").generate(group, GREEDY, None)
    hot = GenerationLimits(max_new_tokens=12, temperature=2.0)
    assert engine.generate(group, hot, 3) == engines("llama").generate(group, hot, 3)
    assert "repetition_penalty" in caplog.text


def end_after(folder: Path, prompt: str) -> tuple[list[str], list[int]]:
    """Return the characters and tokens of a folder's answer to one prompt."""
    engine = load(folder)
    tokens = alone(folder, engine.encode([prompt])[0], 8)
    return [engine._encoder.decode([[token]])[0] for token in tokens], tokens


def test_every_end_token_of_the_generation_config_ends_an_answer(
    tiny_folder: TinyFolder, edited_copy: EditedCopy
) -> None:
    _, tokens = end_after(tiny_folder("llama"), "3+4=")
    end = tokens[3]
    folder = edited_copy("llama", "generation_config.json", eos_token_id=[1, end])
    engine = load(folder)
    (answer,) = engine.generate(engine.encode(["3+4="]), GREEDY, None)
    first = tokens.index(end)
    assert answer == Generation(engine._encoder.decode([tokens[:first]])[0], first + 1, truncated=False)


def test_a_stop_string_ends_an_answer_and_is_cut(tiny_folder: TinyFolder, engines: Engines) -> None:
    engine = engines("llama")
    group = engine.encode(PROMPTS)
    plain = engine.generate(group, GREEDY, None)
    stop = plain[1].text[2:4]
    at = plain[1].text.index(stop)
    limits = GenerationLimits(max_new_tokens=12, stop=("no such text", stop))
    stopped = engine.generate(group, limits, None)
    assert stopped[1] == Generation(plain[1].text[:at], at + 2, truncated=False)
    for row in (0, 2, 3):
        if stop not in plain[row].text:
            assert stopped[row] == plain[row]


def test_reaching_the_limit_is_a_truncation(engines: Engines) -> None:
    engine = engines("llama")
    answers = engine.generate(engine.encode(PROMPTS), GenerationLimits(max_new_tokens=1), None)
    assert [answer.token_count for answer in answers] == [1] * len(PROMPTS)
    assert all(answer.truncated for answer in answers)


def test_strings_are_encoded_as_they_are_and_messages_by_the_chat_template(
    engines: Engines,
) -> None:
    engine = engines("llama")
    chat = (Message("system", "be brief"), Message("user", "3+4="))
    raw, messages, again = engine.encode(["3+4=", chat, "a"])
    assert engine._encoder._tokenizer.decode(raw) == "3+4="
    assert engine._encoder._tokenizer.decode(messages) == "s:be brief<end>u:3+4=<end>a:"
    assert engine._encoder._tokenizer.decode(again) == "a"
    assert engine.encode([""]) == [[0]]


def test_without_a_pad_token_the_end_token_pads(
    edited_copy: EditedCopy,
    engines: Engines,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    engine = load(edited_copy("llama", "tokenizer_config.json", pad_token=None))
    group = engine.encode(PROMPTS)
    assert engine.generate(group, GREEDY, None) == engines("llama").generate(group, GREEDY, None)
    assert "no pad token" in caplog.text


def test_the_fingerprint_names_what_answers_depend_on(
    engines: Engines,
) -> None:
    fingerprint = engines("llama").fingerprint().to_dict()
    assert fingerprint["engine"] == "transformers"
    assert fingerprint["dtype"] == "float32"
    assert fingerprint["threads"] == 1
    assert set(fingerprint["versions"]) == {"torch", "transformers", "tokenizers", "python"}  # type: ignore[call-overload]


def test_weights_kept_in_float32_by_the_architecture_are_written_rounded(tiny_folder: TinyFolder) -> None:
    from dartes_worker.engines.storage import TensorStorage

    flat = torch.zeros(6)
    storage = TensorStorage(flat, ServedDtype.BFLOAT16)
    values = round_to(ServedDtype.BFLOAT16, np.array([0.1, -2.7, 3e38], np.float32))
    storage.write(2, values)
    assert np.array_equal(storage.read(2, 3), values)
    assert flat[:2].tolist() == [0.0, 0.0]
    assert flat[3].item() == torch.tensor(-2.7).bfloat16().item()


def test_the_copy_of_a_folder_answers_alike_wherever_its_bytes_lie_in_the_file(
    tiny_folder: TinyFolder, tmp_path: Path, engines: Engines
) -> None:
    shutil.copytree(tiny_folder("llama"), tmp_path / "model")
    state = load_file(tmp_path / "model" / "model.safetensors")
    note = {"format": "pt", "note": "moves the data by some bytes" * 3}
    save_file(state, tmp_path / "model" / "model.safetensors", metadata=note)
    engine = load(tmp_path / "model")
    group = engine.encode(PROMPTS)
    assert engine.generate(group, GREEDY, None) == engines("llama").generate(group, GREEDY, None)
