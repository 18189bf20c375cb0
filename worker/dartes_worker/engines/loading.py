"""Load a model folder with `transformers` for serving, and say in the user's words why one can't be.

Responsible for the module and its memory: every float tensor contiguous, aligned and owned by this process.
Does not know how checkpoint tensors map to it.
"""

import re
from pathlib import Path
from typing import Any

import torch

from dartes.errors import ConfigurationError
from dartes.noise import ServedDtype
from dartes_worker.engines.base import OutOfMemory
from dartes_worker.engines.storage import TORCH_DTYPES


def load_model(folder: Path, served: ServedDtype, device: str) -> Any:
    """Return the causal LM of `folder` in evaluation mode, in the served format, on `device`.

    Raises
    ------
    ConfigurationError
        No folder, configuration or weights; an unknown architecture, one that needs its own code or is not
        a causal LM; missing or misshapen tensors. The message names the folder and the fix.
    OutOfMemory
        The weights do not fit.
    """
    import transformers

    config = _load_config(folder)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    try:
        model, report = transformers.AutoModelForCausalLM.from_pretrained(
            folder,
            config=config,
            dtype=TORCH_DTYPES[served],
            local_files_only=True,
            use_safetensors=True,
            output_loading_info=True,
        )
        _own_memory(model, torch.device(device))
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise OutOfMemory(
            f"{folder}: the weights as {served.value} do not fit on {device}: {error}"
        ) from error
    except OSError as error:
        raise ConfigurationError(
            f"{folder}: no weights that can be loaded ({_first_line(error)}); a model folder needs "
            "model.safetensors, or shards with model.safetensors.index.json"
        ) from error
    except (RuntimeError, ValueError, KeyError) as error:
        raise ConfigurationError(
            f"{folder}: {type(error).__name__} while loading: {_first_line(error)}; do config.json and the "
            "weights belong together?"
        ) from error
    missing = sorted(report["missing_keys"])
    if missing:
        raise ConfigurationError(
            f"{folder}: {len(missing)} tensors of {type(model).__name__} are missing from the files, "
            f"first {', '.join(missing[:3])}; fetch the model again, or correct config.json"
        )
    model.requires_grad_(False)
    _contiguous_head_input(model)
    return model.eval()


def load_tokenizer(folder: Path) -> Any:
    """Return the tokenizer of `folder`; ConfigurationError where there is none."""
    import transformers

    try:
        return transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError, TypeError, ImportError) as error:
        raise ConfigurationError(
            f"{folder}: no tokenizer that can be loaded ({_first_line(error)}); copy tokenizer.json and "
            "tokenizer_config.json of the model there"
        ) from error


def _load_config(folder: Path) -> Any:
    import transformers
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    if not (folder / "config.json").is_file():
        what = "has no config.json" if folder.is_dir() else "is not a folder"
        raise ConfigurationError(f"{folder}: {what}; a model folder holds config.json, weights and tokenizer")
    try:
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(
            f"{folder / 'config.json'}: {_first_line(error)}; is the architecture one that transformers "
            f"{transformers.__version__} knows? Models that bring their own code are not run"
        ) from error
    classes = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(config.model_type)
    known = (classes,) if isinstance(classes, str) else tuple(classes or ())
    architectures = config.architectures or list(known)
    if config.is_encoder_decoder or not set(architectures) & set(known):
        raise ConfigurationError(
            f"{folder / 'config.json'}: {', '.join(architectures) or config.model_type} is not a causal "
            f"language model{' (' + ' or '.join(known) + ' would be)' if known else ''}; "
            "use a model that generates text from a prompt alone"
        )
    return config


def _own_memory(model: torch.nn.Module, device: torch.device) -> None:
    """Put every tensor on the device, contiguous, aligned, in memory that no file backs.

    The loader may hand out a private mapping of the file: its alignment is the file's, on which vector code
    may depend in the last bit, and a file changed meanwhile would show through. torch's own memory starts at
    multiples of 64 bytes. One tensor at a time, so the peak grows by the largest one.
    """
    for tensor in (*model.parameters(), *model.buffers()):
        data = tensor.data.to(device)
        tensor.data = (
            data.clone(memory_format=torch.contiguous_format) if device.type == "cpu" else data.contiguous()
        )


def _contiguous_head_input(model: Any) -> None:
    """Have the language-model head see contiguous hidden states.

    The first step of an answer takes the last position out of every prompt's, a slice with gaps. torch
    multiplies such a slice on the CPU as a batch of rows, for which it copies the head's whole weight once
    per row: gigabytes for a vocabulary of some 50,000 and 64 prompts. The copy of the slice is a few kB.
    """
    head = model.get_output_embeddings()
    if head is not None:
        head.register_forward_pre_hook(lambda _, inputs: tuple(one.contiguous() for one in inputs))


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in re.split(r"\n+", str(error)) if line.strip()]
    return lines[0][:300] if lines else type(error).__name__
