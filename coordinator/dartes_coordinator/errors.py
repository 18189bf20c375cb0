"""What the coordinator tells a caller, or ends for. Each class says who is at fault."""

from dartes.errors import ConfigurationError, DartesError


class RefusedError(ConfigurationError):
    """A worker cannot take part; the message names what differs."""


class StaleError(DartesError):
    """A call of another incarnation; the worker has to register again."""


class ReportError(ValueError):
    """A report does not fit the lease it answers."""


class CoverageError(ConfigurationError):
    """All slices of a member are in and do not cover its batch: workers cut the batch differently."""
