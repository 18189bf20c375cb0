"""A sequence classifier of `transformers` in this process: a chat and an answer in, one number out.

Every text is scored alone, unpadded: in a batch its last bits would depend on what it shares it with, and
scores decide what is learnt. The model is held as 32-bit floats.
"""

import math
import re
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import torch

from dartes.errors import ConfigurationError
from dartes.rewards.models import resolve_reward_model
from dartes.tasks.base import Prompt
from dartes.tasks.instruction_prompts import messages_of
from dartes_worker.engines.base import OutOfMemory
from dartes_worker.engines.loading import load_tokenizer

_ANY = 2**20
"""Tokens of a model that names no limit."""


class LocalScorer:
    """One model and its tokenizer. Not to be used by two threads at once."""

    def __init__(self, field: str, model: Any, tokenizer: Any, output: int) -> None:
        self._field = field
        self._model = model
        self._tokenizer = tokenizer
        self._output = output
        self._longest = _longest(model, tokenizer)
        self._special = _special_texts(tokenizer)

    @classmethod
    def load(cls, field: str, source: str, label: str | None, base_dir: Path, device: str) -> Self:
        """Load a reward model.

        Parameters
        ----------
        field
            The job's setting that names it, for errors.
        source
            A folder (relative to `base_dir`) or `hf://org/name[@revision]`.
        label
            Name or number of the class whose logit is the score; None where the model has one output only.
        base_dir
            Folder of the job file.
        device
            "cpu", or a torch device such as "cuda:0".

        Raises
        ------
        ConfigurationError
            It is no sequence classifier, or it is not said which of its classes is meant.
        OutOfMemory
            The weights do not fit.
        TransientError
            The hub can't be reached.
        """
        folder = resolve_reward_model(field, source, base_dir)
        model = _load_classifier(field, folder, device)
        return cls(field, model, load_tokenizer(folder), _output_of(field, model.config, label))

    def scores(self, prompts: Sequence[Prompt], completions: Sequence[str]) -> list[float]:
        """One finite logit per answer; see `dartes.rewards.service.Scorer`."""
        return [
            self._score(prompt, completion) for prompt, completion in zip(prompts, completions, strict=True)
        ]

    def close(self) -> None:
        """Release the model."""
        self._model = None

    @torch.inference_mode()
    def _score(self, prompt: Prompt, completion: str) -> float:
        inputs = self._encode(prompt, completion)
        tensors = {name: torch.tensor([values], device=self._model.device) for name, values in inputs.items()}
        score = float(self._model(**tensors).logits[0, self._output])
        if not math.isfinite(score):
            raise ConfigurationError(
                f"{self._field}: the model gave the score {score} to an answer of {len(completion)} "
                "characters; are its weights whole?"
            )
        return score

    def _encode(self, prompt: Prompt, completion: str) -> dict[str, list[int]]:
        """Token ids of a chat by the model's chat template; without one, of prompt and answer as a pair."""
        tokenizer = self._tokenizer
        completion = self._plain(completion)
        turns = [{"role": turn.role, "content": self._plain(turn.content)} for turn in messages_of(prompt)]
        if tokenizer.chat_template is not None:
            encoded = self._encode_chat(turns, self._cut(turns, completion))
        else:
            asked = "\n\n".join(turn["content"] for turn in turns)
            # Its own way of cutting keeps the special tokens that a classifier looks at.
            encoded = tokenizer(asked, completion, truncation=True, max_length=self._longest)
        known = {name: list(encoded[name]) for name in tokenizer.model_input_names if name in encoded}
        if not known["input_ids"]:
            raise ConfigurationError(f"{self._field}: the tokenizer makes nothing of a prompt and its answer")
        # What is still too long is so by its prompt; the answer and the end of its turn stand last.
        return {name: values[-self._longest :] for name, values in known.items()}

    def _plain(self, text: str) -> str:
        """The text without the tokenizer's special tokens: each is broken up by a blank.

        An answer could otherwise end its turn, write a user's praise, and begin another one.
        """
        return text if self._special is None else self._special.sub(r"\1 ", text)

    def _cut(self, turns: list[dict[str, str]], completion: str) -> str:
        """What the model reads of an answer after its prompt; up to half of all that it reads in any case."""

        def tokens(characters: int) -> int:
            return len(self._encode_chat(turns, completion[:characters])["input_ids"])

        if not completion or tokens(len(completion)) <= self._longest:
            return completion
        allowed = max(self._longest, tokens(1) + self._longest // 2)
        kept = bisect_right(range(1, len(completion) + 1), allowed, key=tokens)
        while kept > 1 and tokens(kept) > allowed:  # one character more can be one token less
            kept -= 1
        return completion[:kept]

    def _encode_chat(self, turns: list[dict[str, str]], completion: str) -> Any:
        chat = [*turns, {"role": "assistant", "content": completion}]
        return self._tokenizer(self._render(chat), add_special_tokens=False)

    def _render(self, chat: list[dict[str, str]]) -> str:
        from jinja2 import TemplateError

        try:
            text: str = self._tokenizer.apply_chat_template(chat, tokenize=False)
        except TemplateError as error:
            raise ConfigurationError(
                f"{self._field}: the reward model's chat template refuses the turns "
                f"({', '.join(turn['role'] for turn in chat)}): {error}; leave out task.system if it "
                "knows no system role"
            ) from error
        return text


def _load_classifier(field: str, folder: Path, device: str) -> Any:
    import transformers

    try:
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(f"{field}: {folder}: no configuration that can be read ({error})") from error
    named = config.architectures or []
    if not any(name.endswith("ForSequenceClassification") for name in named):
        raise ConfigurationError(
            f"{field}: {folder}: {', '.join(named) or config.model_type} is no sequence classifier; a reward "
            "model's config.json names an architecture ...ForSequenceClassification"
        )
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    try:
        model, report = transformers.AutoModelForSequenceClassification.from_pretrained(
            folder,
            config=config,
            dtype=torch.float32,
            local_files_only=True,
            use_safetensors=True,
            output_loading_info=True,
        )
        model = model.to(device)
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise OutOfMemory(f"{field}: {folder}: the weights do not fit on {device}: {error}") from error
    except (OSError, RuntimeError, ValueError, KeyError) as error:
        raise ConfigurationError(
            f"{field}: {folder}: {type(error).__name__} while loading ({error}); do config.json and the "
            "weights (model.safetensors) belong together?"
        ) from error
    missing = sorted(report["missing_keys"])
    if missing:
        raise ConfigurationError(
            f"{field}: {folder}: {len(missing)} tensors are missing from the files, first "
            f"{', '.join(missing[:3])}; is it a trained reward model?"
        )
    model.requires_grad_(False)
    return model.eval()


def _output_of(field: str, config: Any, label: str | None) -> int:
    """Which of the model's outputs is the score."""
    count = int(config.num_labels)
    names = [str(config.id2label.get(number, number)) for number in range(count)]
    if label is None:
        if count == 1:
            return 0
        raise ConfigurationError(
            f"{field}: the model has {count} outputs ({', '.join(names[:10])}); say which one is the score "
            f"with task.options.{_label_option(field)}"
        )
    if label in names:
        return names.index(label)
    if label.isdecimal() and int(label) < count:
        return int(label)
    raise ConfigurationError(
        f"task.options.{_label_option(field)} = {label!r}: the model of {field} has no such output "
        f"(it has: {', '.join(names[:10])})"
    )


def _label_option(field: str) -> str:
    return "costLabel" if field.endswith("costModel") else "label"


def _special_texts(tokenizer: Any) -> re.Pattern[str] | None:
    """Finds the first character of each special token's text; None where there are none to break up."""
    added = getattr(tokenizer, "added_tokens_decoder", {}).values()
    texts = {str(token) for token in added if token.special} | set(tokenizer.all_special_tokens)
    longest_first = sorted((text for text in texts if len(text) > 1), key=len, reverse=True)
    if not longest_first:
        return None
    return re.compile(rf"(?={'|'.join(map(re.escape, longest_first))})(.)", re.DOTALL)


def _longest(model: Any, tokenizer: Any) -> int:
    """Tokens that the model reads at most."""
    positions = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return min(int(positions or _ANY), int(tokenizer.model_max_length), _ANY)
