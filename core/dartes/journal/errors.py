"""The errors of reading and extending a journal."""

from dartes.errors import ConfigurationError


class JournalError(ConfigurationError):
    """A journal can't be used for what was asked; the message names it and the fix."""


class DamagedJournalError(JournalError):
    """A journal's bytes are not those that were written.

    `iteration` is the first one that is lost; None if the header itself is.
    """

    def __init__(self, message: str, iteration: int | None) -> None:
        super().__init__(message)
        self.iteration = iteration
