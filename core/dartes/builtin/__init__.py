"""Models that ship with the package, in the hub's folder layout: `builtin://NAME` as a model source.

Knows where they lie and nothing of how they are loaded.
"""

from pathlib import Path

from dartes.errors import ConfigurationError


def builtin_model_names() -> tuple[str, ...]:
    """The names that `builtin://` takes as a model."""
    return tuple(sorted(config.parent.name for config in Path(__file__).parent.glob("*/config.json")))


def builtin_model(name: str) -> Path:
    """The folder of a built-in model; raises `ConfigurationError` for a name that there is not."""
    names = builtin_model_names()
    if name not in names:
        raise ConfigurationError(
            f"model.source: there is no built-in model '{name}' (there are: {', '.join(names)})"
        )
    return Path(__file__).parent / name
