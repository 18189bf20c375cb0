"""What goes wrong in a rank arrives as the error that it was."""

import errno

import pytest
import torch

from dartes.checkpoint import SnapshotError
from dartes.errors import ConfigurationError, ExitCode
from dartes_worker.engines.base import OutOfMemory
from dartes_worker.engines.vllm.trouble import Trouble, told


class OwnError(ConfigurationError):
    """A kind that the other side may not know."""


@pytest.mark.parametrize(
    ("raised", "arrives"),
    [
        (ConfigurationError("w: scaled"), ConfigurationError),
        (OwnError("w: scaled"), ConfigurationError),
        (SnapshotError("s: damaged"), SnapshotError),
        (torch.OutOfMemoryError("too much"), OutOfMemory),
        (MemoryError("too much"), OutOfMemory),
    ],
)
def test_an_error_keeps_its_kind_and_its_words(raised: Exception, arrives: type[Exception]) -> None:
    @told
    def fails() -> int:
        raise raised

    trouble = fails()
    assert isinstance(trouble, Trouble)
    assert not isinstance(trouble, Exception)  # vLLM would raise it as an error without a kind
    error = trouble.error()
    assert type(error) is arrives
    assert str(raised) in str(error)


def test_a_full_disk_keeps_its_number_and_out_of_memory_its_exit_code() -> None:
    full = Trouble.of(OSError(errno.ENOSPC, "No space left on device")).error()
    assert isinstance(full, OSError)
    assert (full.errno, full.strerror) == (errno.ENOSPC, "No space left on device")
    memory = Trouble.of(MemoryError()).error()
    assert isinstance(memory, OutOfMemory)
    assert memory.exit_code == ExitCode.TRANSIENT


def test_what_went_well_is_passed_on_and_a_bug_is_raised() -> None:
    assert told(lambda value: value + 1)(2) == 3
    with pytest.raises(ZeroDivisionError):
        told(lambda: 1 // 0)()
