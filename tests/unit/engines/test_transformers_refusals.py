"""What the `transformers` engine refuses and says: prompts, folders, a group too large for memory."""

from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from dartes.checkpoint import open_checkpoint
from dartes.errors import ConfigurationError
from dartes.noise import ServedDtype
from dartes.tasks.base import Message
from dartes_worker.engines.base import OutOfMemory
from dartes_worker.engines.transformers import TransformersEngine

from .transformers_kit import GREEDY, EditedCopy, Engines, TinyFolder, load

# Prompts and tokenizers ----------------------------------------------------------------------------


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


def test_without_pad_and_end_token_the_folder_is_refused(edited_copy: EditedCopy) -> None:
    folder = edited_copy("llama", "tokenizer_config.json", pad_token=None, eos_token=None)
    for file in ("config.json", "generation_config.json"):
        text = (folder / file).read_text()
        (folder / file).write_text(text.replace('"eos_token_id": 1', '"eos_token_id": null'))
    with pytest.raises(ConfigurationError, match="neither a pad nor an end-of-sequence token"):
        load(folder)


# While generating ----------------------------------------------------------------------------------


def test_a_prompt_beyond_the_models_positions_is_refused(
    engines: Engines,
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
    engines: Engines,
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
    engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engines("llama")

    def fail(**_: Any) -> None:
        raise RuntimeError("shape mismatch")

    monkeypatch.setattr(engine._model, "generate", fail)
    with pytest.raises(RuntimeError, match="shape mismatch"):
        engine.generate([[3]], GREEDY, None)


# Folders -------------------------------------------------------------------------------------------


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
