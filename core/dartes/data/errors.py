"""The error of problem sources; it knows no source."""

from dartes.errors import ConfigurationError


class DatasetError(ConfigurationError):
    """A data set that cannot be used; the message names the file and line, or the field of the job."""
