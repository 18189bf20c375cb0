"""A sequence classifier of random weights, as a reward model for tests."""

from pathlib import Path

WORDS = ["[UNK]", "[PAD]", "user", "assistant", "say", "hello", "good", "bad", "day", "why", ":", "[END]"]
TEMPLATE = "{% for m in messages %}{{ m.role }} : {{ m.content }} {% endfor %}"


def make_classifier(folder: Path, labels: int = 1, *, seed: int = 0, template: str | None = TEMPLATE) -> Path:
    """A Llama with random weights and so many outputs."""
    import torch
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import LlamaConfig, LlamaForSequenceClassification, PreTrainedTokenizerFast

    torch.manual_seed(seed)
    tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]")
    fast.add_special_tokens({"eos_token": "[END]"})
    fast.chat_template = template
    fast.save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=len(WORDS),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=24,
        pad_token_id=1,
        num_labels=labels,
    )
    LlamaForSequenceClassification(config).save_pretrained(folder)
    return folder
