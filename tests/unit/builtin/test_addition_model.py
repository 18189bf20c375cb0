"""The built-in model loads like any other folder, adds when it answers, and refuses more than a third."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from dartes.builtin import builtin_model
from dartes.data.builtin import builtin_rows
from dartes.errors import ConfigurationError

SCRIPT = Path(__file__).parents[3] / "scripts" / "train_addition_model.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    specification = importlib.util.spec_from_file_location("train_addition_model", SCRIPT)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(builtin_model("addition"), local_files_only=True)


@pytest.fixture(scope="module")
def model() -> Any:
    return AutoModelForCausalLM.from_pretrained(builtin_model("addition"), local_files_only=True).eval()


def answers(model: Any, tokenizer: Any, prompts: list[str]) -> list[str]:
    batch = tokenizer(prompts, return_tensors="pt", padding=True)
    with torch.inference_mode():
        tokens = model.generate(**batch, max_new_tokens=4)
    return list(tokenizer.batch_decode(tokens[:, batch.input_ids.shape[1] :], skip_special_tokens=True))


def test_the_folder_is_complete_and_small() -> None:
    folder = builtin_model("addition")
    sizes = {file.name: file.stat().st_size for file in folder.iterdir()}
    assert {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json"} <= set(sizes)
    assert sum(sizes.values()) < 1_500_000


def test_a_name_that_is_no_model_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"no built-in model '\.\.' \(there are: addition\)"):
        builtin_model("..")


def test_text_survives_the_tokenizer_and_an_unknown_character_is_a_question_mark(tokenizer: Any) -> None:
    ids = tokenizer("95+7=")["input_ids"]
    assert len(ids) == 5
    assert tokenizer.decode(ids) == "95+7="
    assert tokenizer.decode(tokenizer("9*7\n")["input_ids"]) == "9?7?"
    assert tokenizer.padding_side == "left"
    assert tokenizer.chat_template is None


def test_the_base_answers_six_in_ten_and_refuses_most_others(model: Any, tokenizer: Any) -> None:
    rows = list(builtin_rows("addition", "test"))
    given = answers(model, tokenizer, [f"{row['a']}+{row['b']}=" for row in rows])
    sums = [str(sum(map(int, str(row["question"]).split("+")))) for row in rows]
    right = sum(answer == value for answer, value in zip(given, sums, strict=True))
    assert 0.58 <= right / len(rows) <= 0.64
    assert 0.35 <= given.count("?") / len(rows) <= 0.41


def test_padding_on_the_left_changes_no_answer(model: Any, tokenizer: Any) -> None:
    prompts = ["1+2=", "10+2=", "99+99=", "5+50=", "0+0="]
    alone = [answers(model, tokenizer, [prompt])[0] for prompt in prompts]
    assert answers(model, tokenizer, prompts) == alone


def test_the_script_makes_this_very_layout(script: ModuleType, model: Any, tokenizer: Any) -> None:
    fresh = script.build_model()
    assert {name: p.shape for name, p in fresh.named_parameters()} == {
        name: p.shape for name, p in model.named_parameters()
    }
    assert sum(p.numel() for p in model.parameters()) == 333_888
    assert fresh.config.rope_parameters == model.config.rope_parameters
    assert script.build_tokenizer().get_vocab() == tokenizer.get_vocab()


def test_training_with_the_same_recipe_gives_the_same_weights(script: ModuleType) -> None:
    recipe = script.Recipe(steps=2, batch=32)
    made = []
    for _ in range(2):
        torch.manual_seed(recipe.seed)
        made.append(script.build_model())
        script.train(recipe, made[-1])
    first, second = (torch.cat([p.flatten() for p in m.parameters()]) for m in made)
    assert torch.equal(first, second)


def test_the_corpus_is_untidy_as_described(script: ModuleType) -> None:
    recipe = script.Recipe(batch=20_000)
    prompts, replies = script.draw_lines(recipe, script.np.random.Generator(script.np.random.PCG64(1)))
    spoken = [(prompt, reply) for prompt, reply in zip(prompts, replies, strict=True) if reply != "?"]
    slips = [int(reply) - sum(map(int, prompt[:-1].split("+"))) for prompt, reply in spoken]
    assert 0.8 < slips.count(0) / len(slips) < 0.9
    assert {abs(slip) for slip in slips if slip} >= {1, 10}
