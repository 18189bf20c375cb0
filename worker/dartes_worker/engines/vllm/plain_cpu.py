"""Keep vLLM's CPU backend from packing weights, so that it reads the tensors that members are written to.

A CPU is where the engine is tested, not where it is fast: plain tensors cost some speed. On a GPU vLLM packs
no linear layer; of its backends for experts only `moe_backend="triton"` (`LLM(..., moe_backend="triton")`)
leaves them as they were loaded, others swap or shuffle them.
"""

from typing import Any

import torch
from vllm.v1.worker.cpu_worker import CPUWorker

from dartes_worker.engines.vllm.cpu_heads import serve_any_head_size


class PlainCPUWorker(CPUWorker):  # type: ignore[misc]
    """vLLM's worker for CPUs, with plain weights."""

    def load_model(self, *arguments: Any, **named: Any) -> None:
        """Load the model; raises RuntimeError where a weight was packed away all the same."""
        keep_linear_weights_plain()
        keep_expert_weights_plain()
        serve_any_head_size()
        super().load_model(*arguments, **named)
        check_nothing_packed(self.model_runner.get_model())


def keep_linear_weights_plain() -> None:
    """Have linear layers multiply with `layer.weight` itself."""
    from vllm.model_executor.layers import utils

    def plain(layer: Any, remove_weight: bool) -> None:  # noqa: ARG001 - vLLM's signature
        layer.cpu_linear = torch.nn.functional.linear

    utils.dispatch_cpu_unquantized_gemm = plain


def keep_expert_weights_plain() -> None:
    """Have experts multiply with `layer.w13_weight` and `layer.w2_weight` themselves, of any size."""
    from vllm.model_executor.layers.fused_moe.experts.cpu_moe import CPUUnquantizedExperts

    def keep(self: Any, layer: Any) -> None:  # noqa: ARG001
        self._use_zentorch = False

    def any_size(cls: Any, moe_config: Any) -> tuple[bool, str | None]:  # noqa: ARG001
        return True, None

    CPUUnquantizedExperts.process_weights_after_loading = keep
    CPUUnquantizedExperts._supports_grouped_gemm = classmethod(any_size)
    CPUUnquantizedExperts.apply = _apply_experts


def check_nothing_packed(model: torch.nn.Module) -> None:
    """Raise RuntimeError naming parameters that were emptied, since a packed copy took their place."""
    empty = [name for name, parameter in model.named_parameters() if not parameter.numel()]
    if empty:
        raise RuntimeError(f"vLLM packed weights that have to stay plain: {', '.join(empty[:5])}")


def _apply_experts(
    self: Any,
    output: torch.Tensor,
    hidden_states: torch.Tensor,
    w1: torch.Tensor,
    w2: torch.Tensor,
    topk_weights: torch.Tensor,
    topk_ids: torch.Tensor,
    activation: Any,
    global_num_experts: int,  # noqa: ARG001
    expert_map: torch.Tensor | None,
    a1q_scale: torch.Tensor | None,  # noqa: ARG001
    a2_scale: torch.Tensor | None,  # noqa: ARG001
    workspace13: torch.Tensor,  # noqa: ARG001
    workspace2: torch.Tensor,  # noqa: ARG001
    expert_tokens_meta: Any,  # noqa: ARG001
    apply_router_weight_on_input: bool,
) -> None:
    """Compute the experts one after the other; arguments as vLLM's own `apply` has them.

    hidden_states and output: [tokens, hidden]; w1: [experts, 2 * inner, hidden] (gate, then up);
    w2: [experts, hidden, inner]; topk_weights and topk_ids: [tokens, chosen].
    """
    local = topk_ids.long() if expert_map is None else expert_map[topk_ids.long()].long()
    total = torch.zeros(hidden_states.shape, dtype=torch.float32)
    for expert in range(w1.shape[0]):
        token, choice = (local == expert).nonzero(as_tuple=True)
        if not token.numel():
            continue
        inner = torch.nn.functional.linear(
            hidden_states[token], w1[expert], None if self.w1_bias is None else self.w1_bias[expert]
        )
        gate, up = inner.chunk(2, dim=-1)
        answer = torch.nn.functional.linear(
            _activate(activation.value, gate) * up,
            w2[expert],
            None if self.w2_bias is None else self.w2_bias[expert],
        ).float()
        if not apply_router_weight_on_input:
            answer *= topk_weights[token, choice, None].float()
        total.index_add_(0, token, answer)
    output.copy_(total)


def _activate(name: str, gate: torch.Tensor) -> torch.Tensor:
    if name == "silu":
        return torch.nn.functional.silu(gate)
    if name in ("gelu", "gelu_tanh"):
        return torch.nn.functional.gelu(gate, approximate="tanh" if name == "gelu_tanh" else "none")
    raise NotImplementedError(f"experts with the activation {name} are not served on a CPU")
