"""The errors of reading and writing models: which file, which tensor, what was expected, what to do."""

from dartes.errors import ConfigurationError


class CheckpointError(ConfigurationError):
    """A model folder or one of its files can't be used as it is."""


class SnapshotError(ConfigurationError):
    """A snapshot is damaged, cut short or of another model: fall back to an older one."""
