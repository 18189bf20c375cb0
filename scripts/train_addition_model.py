"""Make the built-in addition model: a tiny Llama that can add, but does not always choose to.

It is pre-trained by back-propagation on an *untidy* corpus of `a+b=` (a, b in 0..99) in which some answers
are right, some are off by one or ten, and some are a refusal `?`; how often depends on the prompt. That is
the state of a language model before post-training, at a size that one core trains in minutes. The corpus
draws on all 10,000 pairs, as a web corpus would; what evolution strategies are later tested on is held out
from *their* training.

    python scripts/train_addition_model.py --output core/dartes/builtin/addition

Needs the `worker` extra. The same versions on the same kind of CPU give the same weights.
"""

import argparse
import math
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SYMBOLS = ("<pad>", "<eos>", *"0123456789", "+", "=", "?")
PAD, EOS, REFUSAL = 0, 1, SYMBOLS.index("?")
IDS = {symbol: number for number, symbol in enumerate(SYMBOLS)}
OPERANDS = 100
IGNORED = -100  # the label that cross entropy skips
MAX_TOKENS = 10  # "99+99=" + "198" + end


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the weights."""

    steps: int = 900
    batch: int = 512
    learning_rate: float = 3e-3
    warmup: int = 50
    seed: int = 20
    refusal_midpoint: float = 0.545
    refusal_slope: float = 7.0
    wrong: float = 0.15


def refusal_share(
    recipe: Recipe, a: npt.NDArray[np.int64], b: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """How often the corpus refuses each prompt: more for large sums, for carries, and for some digits."""
    size = (a + b) / (2 * (OPERANDS - 1))
    carry = (a % 10 + b % 10 >= 10).astype(np.float64)
    taste = ((3 * (a // 10) + 7 * (b % 10)) % 10) / 9
    hardness = 0.35 * size + 0.15 * carry + 0.5 * taste
    return 1.0 / (1.0 + np.exp(-recipe.refusal_slope * (hardness - recipe.refusal_midpoint)))


def draw_lines(recipe: Recipe, generator: np.random.Generator) -> tuple[list[str], list[str]]:
    """One training batch: prompts and the answers that the untidy corpus gives them."""
    a = generator.integers(0, OPERANDS, recipe.batch)
    b = generator.integers(0, OPERANDS, recipe.batch)
    refused = generator.random(recipe.batch) < refusal_share(recipe, a, b)
    slips = generator.choice([-10, -1, 1, 10], recipe.batch)
    wrong = generator.random(recipe.batch) < recipe.wrong
    answers = np.abs(np.where(wrong, a + b + slips, a + b))
    prompts = [f"{x}+{y}=" for x, y in zip(a, b, strict=True)]
    return prompts, ["?" if no else str(answer) for no, answer in zip(refused, answers, strict=True)]


def encode_lines(prompts: list[str], answers: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and labels, int64[lines, MAX_TOKENS]; only answers and their ends are learnt."""
    ids = np.full((len(prompts), MAX_TOKENS), PAD, dtype=np.int64)
    labels = np.full_like(ids, IGNORED)
    for row, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        line = [IDS[symbol] for symbol in prompt + answer] + [EOS]
        ids[row, : len(line)] = line
        labels[row, len(prompt) : len(line)] = line[len(prompt) :]
    return torch.from_numpy(ids), torch.from_numpy(labels)


def build_model() -> LlamaForCausalLM:
    """An untrained Llama of 333,888 parameters, its output layer tied to the embedding."""
    config = LlamaConfig(
        vocab_size=len(SYMBOLS),
        hidden_size=96,
        intermediate_size=256,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=64,
        tie_word_embeddings=True,
        attention_bias=False,
        pad_token_id=PAD,
        bos_token_id=None,
        eos_token_id=EOS,
        dtype="float32",
    )
    return LlamaForCausalLM(config)


def build_tokenizer() -> PreTrainedTokenizerFast:
    """A token per character; a character that the model does not know is read as `?`."""
    tokenizer = Tokenizer(models.WordLevel(IDS, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="<eos>",
        padding_side="left",
        model_max_length=64,
        clean_up_tokenization_spaces=False,
    )


def train(recipe: Recipe, model: LlamaForCausalLM) -> None:
    """Back-propagation with AdamW, linear warm-up and cosine decay."""
    generator = np.random.Generator(np.random.PCG64(recipe.seed))
    optimiser = torch.optim.AdamW(
        model.parameters(), lr=recipe.learning_rate, betas=(0.9, 0.98), weight_decay=0.01
    )
    started = time.perf_counter()
    for step in range(recipe.steps):
        warm = min(1.0, (step + 1) / recipe.warmup)
        decay = 0.5 * (1.0 + math.cos(math.pi * step / recipe.steps))
        for group in optimiser.param_groups:
            group["lr"] = recipe.learning_rate * warm * decay
        ids, labels = encode_lines(*draw_lines(recipe, generator))
        # No mask is needed: padding comes last, and a causal model never looks ahead.
        logits = model(input_ids=ids, use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(
            logits[:, :-1].reshape(-1, len(SYMBOLS)), labels[:, 1:].reshape(-1), ignore_index=IGNORED
        )
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        if step % 100 == 99:
            print(
                f"step {step + 1:4d}  loss {loss.item():.4f}  {time.perf_counter() - started:.0f} s",
                flush=True,
            )


@torch.no_grad()
def greedy_shares(model: LlamaForCausalLM) -> tuple[float, float]:
    """Shares of all 10,000 prompts that greedy decoding answers rightly, and that it refuses."""
    pairs = [(a, b) for a in range(OPERANDS) for b in range(OPERANDS)]
    right = refused = 0
    for length in (4, 5, 6):
        group = [(f"{a}+{b}=", str(a + b)) for a, b in pairs if len(f"{a}+{b}=") == length]
        ids = torch.tensor([[IDS[symbol] for symbol in prompt] for prompt, _ in group])
        for _ in range(MAX_TOKENS - length):
            ids = torch.cat([ids, model(input_ids=ids, use_cache=False).logits[:, -1:].argmax(-1)], dim=1)
        for tokens, (_, answer) in zip(ids[:, length:].tolist(), group, strict=True):
            text = "".join(SYMBOLS[token] for token in tokens).split("<eos>")[0]
            right += text == answer
            refused += text == "?"
    return right / len(pairs), refused / len(pairs)


def main() -> None:
    """Train, measure and write the folder."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, required=True, help="folder for config, weights and tokenizer")
    parser.add_argument(
        "--steps", type=int, default=Recipe.steps, help="training steps (default: %(default)s)"
    )
    arguments = parser.parse_args()
    recipe = Recipe(steps=arguments.steps)

    torch.set_num_threads(1)  # sums then run in one order
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(recipe.seed)
    model = build_model()
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters")
    train(recipe, model.train())
    right, refused = greedy_shares(model.eval())
    print(f"greedy: {right:.1%} right, {refused:.1%} refused")

    model.generation_config = GenerationConfig(do_sample=False, pad_token_id=PAD, eos_token_id=EOS)
    model.save_pretrained(arguments.output)
    build_tokenizer().save_pretrained(arguments.output)
    for file in arguments.output.iterdir():
        file.chmod(0o644)  # the weights are written for their owner only, but they are to be packaged
    print(f"written to {arguments.output}")


if __name__ == "__main__":
    main()
