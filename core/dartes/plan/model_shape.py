"""What the arithmetic of a plan needs to know of a model: sizes, from its configuration and files' headers.

Reads no weights. A model that isn't here is described by numbers that the caller gives.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dartes.checkpoint import open_checkpoint
from dartes.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Sizes of a causal language model; `context` is None where its configuration names no limit."""

    parameters: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    context: int | None = None

    def kv_values_per_token(self, ranks: int = 1) -> int:
        """Numbers that one rank keeps of a token's keys and values; no rank has less than one head."""
        return 2 * self.layers * max(1, self.kv_heads // ranks) * self.head_size


def shape_of_folder(folder: Path) -> ModelShape:
    """Read the shape of a model folder; ConfigurationError where there is none, or a size is not given."""
    checkpoint = open_checkpoint(folder)
    return shape_of_config(checkpoint.config, checkpoint.parameter_count, str(folder))


def shape_of_config(config: Mapping[str, object], parameters: int, where: str) -> ModelShape:
    """The shape that a config.json describes."""
    inner = config.get("text_config")
    own = inner if isinstance(inner, Mapping) else config
    heads = _integer(own, "num_attention_heads", where)
    kv_heads, head_size = own.get("num_key_value_heads"), own.get("head_dim")
    context = own.get("max_position_embeddings")
    return ModelShape(
        parameters=parameters,
        layers=_integer(own, "num_hidden_layers", where),
        heads=heads,
        kv_heads=kv_heads if isinstance(kv_heads, int) else heads,
        head_size=head_size if isinstance(head_size, int) else _integer(own, "hidden_size", where) // heads,
        context=context if isinstance(context, int) else None,
    )


def check_tensor_parallel(shape: ModelShape, ranks: int, where: str) -> None:
    """Raise ConfigurationError unless `ranks` processes can share the heads.

    Attention heads are divided; key heads are divided too, or each is kept by equally many ranks.
    """

    def fits(count: int) -> bool:
        few, many = sorted((count, shape.kv_heads))
        return shape.heads % count == 0 and many % few == 0

    if not fits(ranks):
        fitting = [n for n in range(1, min(shape.heads, 64) + 1) if fits(n)]
        raise ConfigurationError(
            f"spec.workers.engineOptions.tensorParallelSize = {ranks}: {where} has {shape.heads} attention "
            f"heads and {shape.kv_heads} key heads, which {ranks} ranks can't share; use one of "
            f"{', '.join(map(str, fitting))}"
        )


def _integer(config: Mapping[str, object], name: str, where: str) -> int:
    value = config.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigurationError(
            f"{where}: config.json: {name} = {value!r}: the KV cache is sized by it, and it must be a whole "
            "number above 0"
        )
    return value
