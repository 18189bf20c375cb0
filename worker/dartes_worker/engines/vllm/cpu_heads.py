"""Let vLLM's attention on CPUs serve head sizes that its kernel does not have, by filling up with zeros.

A zero at the end of a query and a key adds nothing to their product, and a value's is cut off again, so the
answers are those of the head as it is. The built-in model's heads are that small. Knows CPUs only.
"""

from typing import Any

import torch


def serve_any_head_size() -> None:
    """Have every attention layer that is made from now on take the next size that the kernel has."""
    from vllm.model_executor.layers.attention.attention import Attention
    from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend

    if getattr(Attention, "dartes_any_head_size", False):
        return
    build, forward = Attention.__init__, Attention.forward
    sizes = sorted(CPUAttentionBackend.get_supported_head_sizes())

    def build_padded(self: Any, num_heads: int, head_size: int, *arguments: Any, **named: Any) -> None:
        served = next((size for size in sizes if size >= head_size), head_size)
        build(self, num_heads, served, *arguments, **named)
        self.dartes_head_size = head_size

    def padded_forward(
        self: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *more: Any, **named: Any
    ) -> torch.Tensor:
        own, served = self.dartes_head_size, self.head_size
        if own == served:
            plain: torch.Tensor = forward(self, query, key, value, *more, **named)
            return plain
        padded = [
            torch.nn.functional.pad(one.reshape(-1, heads, own), (0, served - own)).flatten(1)
            for one, heads in ((query, self.num_heads), (key, self.num_kv_heads), (value, self.num_kv_heads))
        ]
        found: torch.Tensor = forward(self, *padded, *more, **named)
        return found.view(-1, self.num_heads, served)[..., :own].reshape(query.shape)

    Attention.__init__ = build_padded
    Attention.forward = padded_forward
    Attention.dartes_any_head_size = True
