"""What a run leaves on disk and how it is read back; writing it is the coordinator's alone."""

from dartes.state.columns import StoredCompletion, StoredEvaluation, StoredIteration, StoredSnapshot
from dartes.state.errors import DamagedStoreError, NoStateError
from dartes.state.folder import RunFolder
from dartes.state.reader import RunReader

__all__ = [
    "DamagedStoreError",
    "NoStateError",
    "RunFolder",
    "RunReader",
    "StoredCompletion",
    "StoredEvaluation",
    "StoredIteration",
    "StoredSnapshot",
]
