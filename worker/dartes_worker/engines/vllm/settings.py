"""What a job says about the vLLM engine, in vLLM's own words, as far as no model is needed for it.

Pure: reads a job, returns values. Knows nothing of vLLM's Python interface.
"""

from dataclasses import dataclass
from typing import Self

from dartes.spec import JobSpec
from dartes.spec.roles import MasterPlacement


@dataclass(frozen=True, slots=True)
class VllmSettings:
    """Settings of one worker's vLLM.

    Attributes
    ----------
    tensor_parallel
        Processes that share the model, each with a GPU or a share of the CPU.
    memory_utilization
        Share of a GPU's memory for everything that this worker keeps there.
    max_model_len
        Tokens of prompt and answer together, or None for as many as the job can ask for.
    token_budget, max_new_tokens
        `generation.tokenBudget` and `generation.maxNewTokens`: what the default of `max_model_len` and the
        KV cache on a CPU are made from.
    master_placement
        Where the master must lie; None: where the memory suffices.
    """

    tensor_parallel: int = 1
    memory_utilization: float = 0.9
    max_model_len: int | None = None
    kv_cache_dtype: str = "auto"
    batch_invariant: bool = False
    master_placement: MasterPlacement | None = None
    token_budget: int = 16_384
    max_new_tokens: int = 1_024

    @classmethod
    def of(cls, spec: JobSpec) -> Self:
        """The settings that a job's fields amount to."""
        options = spec.workers.engine_options
        return cls(
            tensor_parallel=spec.workers.tensor_parallel,
            memory_utilization=options.gpu_memory_utilization,
            max_model_len=options.max_model_len,
            kv_cache_dtype=str(options.kv_cache_dtype),
            batch_invariant=options.batch_invariant,
            master_placement=options.master_placement,
            token_budget=spec.generation.token_budget,
            max_new_tokens=spec.generation.max_new_tokens,
        )

    def length(self, context: int | None) -> int:
        """Tokens of prompt and answer together that vLLM has to be ready for.

        Unless told, as many as a generation group may have, or twice the longest answer, within the model's
        `context`: a model's whole context would cost KV memory that no problem uses.
        """
        wanted = self.max_model_len or max(self.token_budget, 2 * self.max_new_tokens)
        return wanted if context is None or self.max_model_len else min(wanted, context)

    def cpu_tokens(self, length: int) -> int:
        """Tokens that the KV cache holds on a CPU: a generation group's, and one of the longest sequence."""
        return max(self.token_budget, length)
