"""Token ids of prompts, by a model's own tokenizer and chat template; text of answers.

Responsible for what a tokenizer lacks: it fills in a pad token where that is harmless and refuses the rest
with what to do. Knows no model and no weights.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from dartes.errors import ConfigurationError
from dartes_worker.engines.base import Prompt

_LOG: Final = logging.getLogger(__name__)


class PromptEncoder:
    """A tokenizer of a model folder, as the engine needs it.

    Attributes
    ----------
    end_ids
        Tokens that end an answer, ascending; may be empty, then only the limit does.
    pad_id
        Token that fills a group's shorter prompts on the left, under an attention mask of 0.
    """

    def __init__(self, tokenizer: Any, end_ids: Sequence[int], folder: Path) -> None:
        self._tokenizer = tokenizer
        self._folder = folder
        tokenizer_end = tokenizer.eos_token_id
        self.end_ids = tuple(sorted(set(end_ids) or ({tokenizer_end} - {None})))
        if tokenizer.pad_token_id is not None:
            self.pad_id = int(tokenizer.pad_token_id)
        elif self.end_ids:
            self.pad_id = self.end_ids[0]
            _LOG.info("%s: the tokenizer has no pad token; its end token %d pads", folder, self.pad_id)
        else:
            raise ConfigurationError(
                f"{folder}: the tokenizer has neither a pad nor an end-of-sequence token; name one in "
                'tokenizer_config.json ("pad_token" or "eos_token")'
            )

    def encode(self, prompts: Sequence[Prompt]) -> list[list[int]]:
        """Return token ids per prompt, at least one each.

        A string gets the tokenizer's normal special tokens; messages go through the chat template with the
        opening of the model's turn, and get no others.
        """
        raw = [prompt for prompt in prompts if isinstance(prompt, str)]
        # Tokenizers are much faster on one list than on one string at a time.
        encoded_raw = iter(self._tokenizer(raw, padding=False)["input_ids"] if raw else ())
        encoded = [
            list(next(encoded_raw)) if isinstance(prompt, str) else self._encode_chat(prompt)
            for prompt in prompts
        ]
        start = self._tokenizer.bos_token_id
        return [tokens or [self.pad_id if start is None else start] for tokens in encoded]

    def decode(self, answers: Sequence[Sequence[int]]) -> list[str]:
        """Return the text of each answer without special tokens."""
        texts: list[str] = self._tokenizer.batch_decode(
            answers, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return texts

    def _encode_chat(self, messages: Prompt) -> list[int]:
        from jinja2 import TemplateError

        if self._tokenizer.chat_template is None:
            raise ConfigurationError(
                f"{self._folder}: the tokenizer has no chat template, and the task's prompts are messages; "
                "use an instruct model, add chat_template.jinja to the folder, or give task.prompt without "
                "task.system, which makes raw prompts"
            )
        conversation = [
            {"role": message.role, "content": message.content}
            for message in messages
            if not isinstance(message, str)
        ]
        try:
            tokens = self._tokenizer.apply_chat_template(
                conversation, add_generation_prompt=True, tokenize=True, return_dict=True
            )
        except TemplateError as error:
            raise ConfigurationError(
                f"{self._folder}: the chat template refuses the task's messages (roles "
                f"{', '.join(turn['role'] for turn in conversation)}): {error}; leave out task.system if the "
                "model knows no system role"
            ) from error
        return list(tokens["input_ids"])


def end_tokens(folder: Path) -> list[int]:
    """Return the tokens that end an answer by the folder's generation config, else by its config.json."""
    from transformers import AutoConfig, GenerationConfig

    if (folder / "generation_config.json").is_file():
        ends = GenerationConfig.from_pretrained(folder, local_files_only=True).eos_token_id
    else:
        ends = getattr(AutoConfig.from_pretrained(folder, local_files_only=True), "eos_token_id", None)
    if ends is None:
        return []
    return [int(ends)] if isinstance(ends, int) else [int(end) for end in ends]
