"""Tiny random models of many families in the hub's layout, made once per test session.

`tiny_folder(family)` returns a folder as a user would have it: config, safetensors as `transformers` saves
them, and a character tokenizer with a chat template.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from dartes_worker.engines.transformers import TransformersEngine

from .transformers_kit import Engines, TinyFolder, load

ALPHABET = "0123456789+-*/=?abcdefghijklmnopqrstuvwxyz .:"
END, PAD = "<end>", "<pad>"
VOCABULARY = [PAD, END, *ALPHABET]

SMALL: dict[str, Any] = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 1,
    "pad_token_id": 0,
}
EXPERTS: dict[str, Any] = {**SMALL, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 12}
ENDS = {"bos_token_id": 1, "eos_token_id": 1, "pad_token_id": 0}

FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", {**SMALL, "tie_word_embeddings": False}),
    "llama-tied": ("LlamaConfig", {**SMALL, "tie_word_embeddings": True}),
    "qwen2": ("Qwen2Config", SMALL),
    "qwen3": ("Qwen3Config", SMALL),
    "gemma2": ("Gemma2Config", {**SMALL, "query_pre_attn_scalar": 8, "sliding_window": 16}),
    "gemma3": ("Gemma3TextConfig", {**SMALL, "query_pre_attn_scalar": 8, "sliding_window": 16}),
    "mistral": ("MistralConfig", {**SMALL, "sliding_window": 16}),
    "phi3": ("Phi3Config", SMALL),
    "gpt2": (
        "GPT2Config",
        {"vocab_size": len(VOCABULARY), "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64, **ENDS},
    ),
    "opt": (
        "OPTConfig",
        {**SMALL, "ffn_dim": 24, "word_embed_proj_dim": 16, "dropout": 0.0},
    ),
    "gpt-neox": ("GPTNeoXConfig", SMALL),
    "mixtral": ("MixtralConfig", {**SMALL, "num_local_experts": 4, "num_experts_per_tok": 2}),
    # Square projections keep their shape when transposed.
    "mixtral-square": (
        "MixtralConfig",
        {**SMALL, "intermediate_size": 16, "num_local_experts": 4, "num_experts_per_tok": 2},
    ),
    "qwen3-moe": ("Qwen3MoeConfig", EXPERTS),
}

CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'][0] + ':' + message['content'] + '<end>' }}{% endfor %}"
    "{% if add_generation_prompt %}a:{% endif %}"
)


def write_tokenizer(folder: Path, *, chat_template: str | None = CHAT_TEMPLATE, **special: str) -> None:
    """Write a character tokenizer; `special` gives eos_token and pad_token."""
    from tokenizers import Regex, Tokenizer
    from tokenizers.decoders import Fuse
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Split
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(WordLevel({token: index for index, token in enumerate(VOCABULARY)}, unk_token="?"))
    tokenizer.pre_tokenizer = Split(Regex("."), "isolated")
    tokenizer.decoder = Fuse()
    tokenizer.add_special_tokens([END, PAD])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)
    if chat_template is not None:
        fast.chat_template = chat_template
    fast.save_pretrained(folder)


def write_family(folder: Path, family: str) -> None:
    """Write a random model of a family with its tokenizer to `folder`."""
    import transformers

    class_name, settings = FAMILIES[family]
    torch.manual_seed(7)
    model = transformers.AutoModelForCausalLM.from_config(getattr(transformers, class_name)(**settings))
    for parameter in model.parameters():
        # Larger than an initialisation, so that answers depend on the prompt.
        parameter.data.normal_(std=0.3)
    model.save_pretrained(folder)
    write_tokenizer(folder, eos_token=END, pad_token=PAD)


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> TinyFolder:
    """Return the folder of a family, written when first asked for; tests do not change it."""
    made: dict[str, Path] = {}

    def folder_of(family: str) -> Path:
        if family not in made:
            made[family] = tmp_path_factory.mktemp(family)
            write_family(made[family], family)
        return made[family]

    return folder_of


@pytest.fixture
def edited_copy(tiny_folder: TinyFolder, tmp_path: Path) -> Callable[..., Path]:
    """Return a function that copies a family's folder and changes fields of one of its JSON files."""
    import shutil

    def copy(family: str, file: str = "config.json", **fields: object) -> Path:
        target = tmp_path / "model"
        shutil.copytree(tiny_folder(family), target)
        document = json.loads((target / file).read_text())
        document.update(fields)
        document = {name: value for name, value in document.items() if value is not None}
        (target / file).write_text(json.dumps(document))
        return target

    return copy


@pytest.fixture(scope="module")
def engines(tiny_folder: TinyFolder) -> Engines:
    """Engines by family, for tests that do not change weights."""
    loaded: dict[str, TransformersEngine] = {}

    def engine_of(family: str) -> TransformersEngine:
        if family not in loaded:
            loaded[family] = load(tiny_folder(family))
        return loaded[family]

    return engine_of
