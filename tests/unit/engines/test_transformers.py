"""The `transformers` engine: the answers of `model.generate`, repeatable, under the job's limits alone."""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from dartes.checkpoint import open_checkpoint
from dartes.errors import ConfigurationError
from dartes.noise import ServedDtype
from dartes.noise.dtypes import round_to
from dartes.tasks.base import Message
from dartes_worker.engines.base import Generation, GenerationLimits, OutOfMemory
from dartes_worker.engines.transformers import TransformersEngine

TinyFolder = Callable[[str], Path]
EditedCopy = Callable[..., Path]
GREEDY = GenerationLimits(max_new_tokens=12)
PROMPTS = ["3+4=", "12+30=", "a", "the sum of 8 and 9 is"]
SHARING = [f"you are a calculator. q: {a}+{b}= a:" for a, b in ((3, 4), (12, 5), (7, 77), (10, 2))]


def load(folder: Path, served: ServedDtype = ServedDtype.FLOAT32) -> TransformersEngine:
    return TransformersEngine.load(folder, open_checkpoint(folder), served, 1, "cpu")


@pytest.fixture(scope="module")
def engines(tiny_folder: TinyFolder) -> Callable[[str], TransformersEngine]:
    """Engines by family, for tests that do not change weights."""
    loaded: dict[str, TransformersEngine] = {}

    def engine_of(family: str) -> TransformersEngine:
        if family not in loaded:
            loaded[family] = load(tiny_folder(family))
        return loaded[family]

    return engine_of


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
    engines: Callable[[str], TransformersEngine],
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
    engines: Callable[[str], TransformersEngine],
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


def test_sampling_is_decided_by_its_seed(engines: Callable[[str], TransformersEngine]) -> None:
    engine = engines("llama")
    group = engine.encode(PROMPTS)
    limits = GenerationLimits(max_new_tokens=8, temperature=1.5, top_p=0.95)
    first = engine.generate(group, limits, 2**64 - 1)
    engine.generate(group, limits, 4)
    assert engine.generate(group, limits, 2**64 - 1) == first
    assert engine.generate(group, limits, 4) != first
    with pytest.raises(ValueError, match="seed"):
        engine.generate(group, limits, None)


def test_a_tiny_nucleus_is_greedy(engines: Callable[[str], TransformersEngine]) -> None:
    engine = engines("llama")
    group = engine.encode(PROMPTS)
    nucleus = GenerationLimits(max_new_tokens=12, temperature=1.0, top_p=1e-6)
    assert engine.generate(group, nucleus, 3) == engine.generate(group, GREEDY, None)


def test_sampling_defaults_of_the_folder_are_not_applied_and_said_so(
    edited_copy: EditedCopy,
    engines: Callable[[str], TransformersEngine],
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


def test_a_stop_string_ends_an_answer_and_is_cut(
    tiny_folder: TinyFolder, engines: Callable[[str], TransformersEngine]
) -> None:
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


def test_reaching_the_limit_is_a_truncation(engines: Callable[[str], TransformersEngine]) -> None:
    engine = engines("llama")
    answers = engine.generate(engine.encode(PROMPTS), GenerationLimits(max_new_tokens=1), None)
    assert [answer.token_count for answer in answers] == [1] * len(PROMPTS)
    assert all(answer.truncated for answer in answers)


def test_strings_are_encoded_as_they_are_and_messages_by_the_chat_template(
    engines: Callable[[str], TransformersEngine],
) -> None:
    engine = engines("llama")
    chat = (Message("system", "be brief"), Message("user", "3+4="))
    raw, messages, again = engine.encode(["3+4=", chat, "a"])
    assert engine._encoder._tokenizer.decode(raw) == "3+4="
    assert engine._encoder._tokenizer.decode(messages) == "s:be brief<end>u:3+4=<end>a:"
    assert engine._encoder._tokenizer.decode(again) == "a"
    assert engine.encode([""]) == [[0]]


def test_messages_without_a_chat_template_are_refused_with_what_to_do(
    edited_copy: EditedCopy,
) -> None:
    folder = edited_copy("llama")
    (folder / "chat_template.jinja").unlink()
    engine = load(folder)
    assert engine.encode(["3+4="])
    with pytest.raises(ConfigurationError, match=r"no chat template.*task\.prompt"):
        engine.encode([(Message("user", "3+4="),)])


def test_a_template_that_refuses_a_role_is_reported(edited_copy: EditedCopy) -> None:
    folder = edited_copy("llama")
    (folder / "chat_template.jinja").write_text("{{ raise_exception('System role not supported') }}")
    with pytest.raises(ConfigurationError, match=r"System role not supported; leave out task\.system"):
        load(folder).encode([(Message("system", "x"), Message("user", "y"))])


def test_without_a_pad_token_the_end_token_pads(
    edited_copy: EditedCopy,
    engines: Callable[[str], TransformersEngine],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    engine = load(edited_copy("llama", "tokenizer_config.json", pad_token=None))
    group = engine.encode(PROMPTS)
    assert engine.generate(group, GREEDY, None) == engines("llama").generate(group, GREEDY, None)
    assert "no pad token" in caplog.text


def test_without_pad_and_end_token_the_folder_is_refused(edited_copy: EditedCopy) -> None:
    folder = edited_copy("llama", "tokenizer_config.json", pad_token=None, eos_token=None)
    for file in ("config.json", "generation_config.json"):
        text = (folder / file).read_text()
        (folder / file).write_text(text.replace('"eos_token_id": 1', '"eos_token_id": null'))
    with pytest.raises(ConfigurationError, match="neither a pad nor an end-of-sequence token"):
        load(folder)


def test_a_prompt_beyond_the_models_positions_is_refused(
    engines: Callable[[str], TransformersEngine],
) -> None:
    engine = engines("llama")
    with pytest.raises(
        ConfigurationError, match="prompt of 60 tokens that is beyond the model's 64 positions"
    ):
        engine.generate([[3] * 60], GREEDY, None)


@pytest.mark.parametrize(
    ("raised", "asked"),
    [
        (
            RuntimeError(
                "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory: "
                "you tried to allocate 8589934592 bytes. Error code 12 (Cannot allocate memory)"
            ),
            "8589934592 bytes were asked for",
        ),
        (
            torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.50 GiB."),
            "2.50 GiB were asked for",
        ),
        (MemoryError(), "MiB are free"),
    ],
)
def test_running_out_of_memory_reports_the_numbers(
    raised: Exception,
    asked: str,
    engines: Callable[[str], TransformersEngine],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = engines("llama")

    def fail(**_: Any) -> None:
        raise raised

    monkeypatch.setattr(engine._model, "generate", fail)
    with pytest.raises(
        OutOfMemory, match=f"group of 2 prompts, the longest 7 tokens, 38 tokens .*{asked}"
    ) as caught:
        engine.generate([[3] * 7, [3] * 2], GREEDY, None)
    assert "generation.tokenBudget" in str(caught.value)


def test_an_error_that_is_not_about_memory_stays_a_bug(
    engines: Callable[[str], TransformersEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engines("llama")

    def fail(**_: Any) -> None:
        raise RuntimeError("shape mismatch")

    monkeypatch.setattr(engine._model, "generate", fail)
    with pytest.raises(RuntimeError, match="shape mismatch"):
        engine.generate([[3]], GREEDY, None)


def test_the_fingerprint_names_what_answers_depend_on(
    engines: Callable[[str], TransformersEngine],
) -> None:
    fingerprint = engines("llama").fingerprint().to_dict()
    assert fingerprint["engine"] == "transformers"
    assert fingerprint["dtype"] == "float32"
    assert fingerprint["threads"] == 1
    assert set(fingerprint["versions"]) == {"torch", "transformers", "tokenizers", "python"}  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("file", "fields", "message"),
    [
        ("config.json", {"model_type": "no-such-thing"}, "config.json: .*no-such-thing"),
        ("config.json", {"architectures": ["LlamaForTokenClassification"]}, "is not a causal language model"),
        ("config.json", {"model_type": "t5", "architectures": None}, "is not a causal language model"),
        (
            "config.json",
            {"num_hidden_layers": 3},
            r"9 tensors of LlamaForCausalLM are missing .*model\.layers\.2",
        ),
        ("config.json", {"intermediate_size": 40}, "do config.json and the weights belong together"),
    ],
)
def test_a_folder_that_is_no_causal_lm_is_refused_with_the_fix(
    file: str, fields: dict[str, object], message: str, edited_copy: EditedCopy
) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        load(edited_copy("llama", file, **fields))
    assert "model" in str(caught.value)


def test_a_folder_without_configuration_is_refused(edited_copy: EditedCopy) -> None:
    folder = edited_copy("llama")
    (folder / "config.json").unlink()
    with pytest.raises(ConfigurationError, match=r"has no config\.json"):
        load(folder)


def test_a_folder_without_weights_is_refused(edited_copy: EditedCopy, tiny_folder: TinyFolder) -> None:
    folder = edited_copy("llama")
    (folder / "model.safetensors").unlink()
    with pytest.raises(ConfigurationError, match="no weights"):
        TransformersEngine.load(folder, open_checkpoint(tiny_folder("llama")), ServedDtype.FLOAT32, 1, "cpu")


def test_a_folder_without_tokenizer_is_refused(edited_copy: EditedCopy) -> None:
    folder = edited_copy("llama")
    for file in folder.glob("tokenizer*"):
        file.unlink()
    with pytest.raises(ConfigurationError, match="no tokenizer"):
        load(folder)


def test_a_missing_tensor_is_named(edited_copy: EditedCopy) -> None:
    folder = edited_copy("llama")
    state = load_file(folder / "model.safetensors")
    del state["model.norm.weight"]
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ConfigurationError, match=r"missing from the files, first model\.norm\.weight"):
        load(folder)


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
    tiny_folder: TinyFolder, tmp_path: Path, engines: Callable[[str], TransformersEngine]
) -> None:
    shutil.copytree(tiny_folder("llama"), tmp_path / "model")
    state = load_file(tmp_path / "model" / "model.safetensors")
    note = {"format": "pt", "note": "moves the data by some bytes" * 3}
    save_file(state, tmp_path / "model" / "model.safetensors", metadata=note)
    engine = load(tmp_path / "model")
    group = engine.encode(PROMPTS)
    assert engine.generate(group, GREEDY, None) == engines("llama").generate(group, GREEDY, None)
