"""Tiny random models of the families that the vLLM engine is tested with, in the hub's layout.

Vocabularies are no multiple of 64, so that vLLM pads them; heads have a size that its CPU kernel has.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import torch

CHARACTERS: Final = "0123456789+-*/=?abcdefghijklmnopqrstuvwxyz .:"
END: Final = "<end>"
PAD: Final = "<pad>"
VOCABULARY_SIZE: Final = 301

SMALL: Final[Mapping[str, Any]] = {
    "vocab_size": VOCABULARY_SIZE,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 128,
    "bos_token_id": 1,
    "eos_token_id": 1,
    "pad_token_id": 0,
    "tie_word_embeddings": False,
}
_GEMMA: Final[Mapping[str, Any]] = {
    **SMALL,
    "tie_word_embeddings": True,
    "query_pre_attn_scalar": 32,
    "sliding_window": 64,
}

FAMILIES: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "llama": ("LlamaConfig", SMALL),
    "llama-one-kv-head": ("LlamaConfig", {**SMALL, "num_key_value_heads": 1}),
    "smollm2": ("LlamaConfig", {**SMALL, "tie_word_embeddings": True}),
    "mistral": ("MistralConfig", {**SMALL, "sliding_window": None}),
    "qwen2": ("Qwen2Config", {**SMALL, "head_dim": None, "hidden_size": 128}),
    "qwen3": ("Qwen3Config", SMALL),
    "gemma2": ("Gemma2Config", _GEMMA),
    "gemma3": ("Gemma3TextConfig", _GEMMA),
    "phi3": ("Phi3Config", {**SMALL, "head_dim": None, "hidden_size": 128}),
    "mixtral": (
        "MixtralConfig",
        {**SMALL, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None},
    ),
    "qwen3-moe": (
        "Qwen3MoeConfig",
        {**SMALL, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64},
    ),
}


def write_model(folder: Path, family: str, std: float = 0.2) -> Path:
    """Write a random model of a family with a character tokenizer to `folder`, and return it."""
    import transformers

    class_name, settings = FAMILIES[family]
    fields = {name: value for name, value in settings.items() if value is not None}
    torch.manual_seed(7)
    config = getattr(transformers, class_name)(**fields)
    model = transformers.AutoModelForCausalLM.from_config(config)
    for parameter in model.parameters():
        # Larger than an initialisation, so that answers depend on the prompt.
        parameter.data.normal_(std=std)
    if config.tie_word_embeddings:
        # A large one would make every model repeat its last token.
        model.get_input_embeddings().weight.data *= 0.25
    model.save_pretrained(folder)
    _write_tokenizer(folder)
    return folder


def _write_tokenizer(folder: Path) -> None:
    from tokenizers import Regex, Tokenizer
    from tokenizers.decoders import Fuse
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Split
    from transformers import PreTrainedTokenizerFast

    words = [PAD, END, *CHARACTERS]
    words += [f"<{number}>" for number in range(len(words), VOCABULARY_SIZE)]
    tokenizer = Tokenizer(WordLevel({word: index for index, word in enumerate(words)}, unk_token="?"))
    tokenizer.pre_tokenizer = Split(Regex("."), "isolated")
    tokenizer.decoder = Fuse()
    tokenizer.add_special_tokens([END, PAD])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END, pad_token=PAD)
    fast.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    fast.save_pretrained(folder)
