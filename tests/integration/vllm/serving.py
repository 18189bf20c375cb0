"""vLLM started on tiny models and gone again, for tests of its weights; and what `transformers` says.

One process serves many models one after the other.
"""

import gc
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from dartes.checkpoint import Checkpoint, open_checkpoint
from dartes.noise import tensor_id
from dartes.noise.reference import member

Tokens = list[list[int]]
Values = Mapping[str, NDArray[np.float32]]

PROMPTS: Final[Sequence[Sequence[int]]] = ([5, 17, 30, 41], [9, 9, 2, 33, 12, 7], [44, 3, 21])
NEW_TOKENS: Final = 8
_ENVIRONMENT: Final = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    # A few small functions would be compiled anew for every model, for seconds each.
    "TORCHDYNAMO_DISABLE": "1",
}


@contextmanager
def environment() -> Iterator[None]:
    """What vLLM reads when it is imported and started; all that it changes in this process is put back."""
    import torch._dynamo

    disabled = torch._dynamo.config.disable
    with pytest.MonkeyPatch.context() as patch:
        for name, value in _ENVIRONMENT.items():
            patch.setenv(name, value)
        torch._dynamo.config.disable = True
        patch.setattr(torch, "set_num_threads", torch.set_num_threads)
        for name in ("LD_PRELOAD", "LD_LIBRARY_PATH"):
            patch.setenv(name, os.environ.get(name, ""))
        yield
    torch._dynamo.config.disable = disabled


@contextmanager
def served_by_vllm(folder: Path, dtype: str, ranks: int = 1) -> Iterator[Any]:
    """vLLM's `LLM` of a folder; afterwards nothing of it is left in this process."""
    from vllm.distributed import cleanup_dist_env_and_memory

    with pytest.MonkeyPatch.context() as patch:
        # vLLM collects garbage many times per start, most of a second each with all that is imported.
        patch.setattr(gc, "collect", lambda *_: 0)
        llm = _start(folder, dtype, ranks)
        try:
            yield llm
        finally:
            llm.llm_engine.engine_core.shutdown()
            cleanup_dist_env_and_memory()


def _start(folder: Path, dtype: str, ranks: int) -> Any:
    from vllm import LLM

    return LLM(
        str(folder),
        dtype=dtype,
        max_model_len=64,
        max_num_seqs=8,
        kv_cache_memory_bytes=2**24,
        enforce_eager=True,
        skip_tokenizer_init=True,
        tensor_parallel_size=ranks,
        distributed_executor_backend="uni" if ranks == 1 else "mp",
        worker_cls="dartes_worker.engines.vllm.plain_cpu.PlainCPUWorker",
        worker_extension_cls="dartes_worker.engines.vllm.extension.WeightsExtension",
        seed=0,
    )


def perturbed(checkpoint: Checkpoint, seed: int, sigma: float) -> dict[str, NDArray[np.float32]]:
    """A member by the reference, flat."""
    return {
        info.name: member(
            checkpoint.read_f32(info.name, 0, info.count), seed, tensor_id(info.name), 0, np.float32(sigma)
        )
        for info in checkpoint.trainable
    }


def vllm_answers(llm: Any) -> Tokens:
    """Greedy answers to `PROMPTS`, with keys and values of earlier weights forgotten."""
    from vllm import SamplingParams

    llm.reset_prefix_cache()
    params = SamplingParams(temperature=0, max_tokens=NEW_TOKENS, ignore_eos=True, detokenize=False)
    prompts = [{"prompt_token_ids": list(prompt)} for prompt in PROMPTS]
    outputs = llm.generate(prompts, params, use_tqdm=False)
    return [list(output.outputs[0].token_ids) for output in outputs]


def transformers_answers(folder: Path, values: Values) -> Tokens:
    """What `transformers` answers with these weights, read from files as a user's would be."""
    import transformers
    from safetensors.numpy import save_file

    changed = folder.parent / "perturbed"
    changed.mkdir(exist_ok=True)
    (changed / "config.json").write_bytes((folder / "config.json").read_bytes())
    shapes = {info.name: info.shape for info in open_checkpoint(folder).trainable}
    tensors = {name: own.reshape(shapes[name]) for name, own in values.items()}
    save_file(tensors, changed / "model.safetensors", {"format": "pt"})
    model = transformers.AutoModelForCausalLM.from_pretrained(changed, dtype=torch.float32).eval()
    answers: Tokens = []
    for prompt in PROMPTS:
        tokens = list(prompt)
        for _ in range(NEW_TOKENS):
            with torch.no_grad():
                logits = model(torch.tensor([tokens]), use_cache=False).logits
            tokens.append(int(logits[0, -1].argmax()))
        answers.append(tokens[len(prompt) :])
    return answers
