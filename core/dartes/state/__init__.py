"""What a run leaves on disk and how it is read back; writing it is the coordinator's alone."""

from dartes.state.folder import RunFolder
from dartes.state.reader import NoStateError, RunReader, StoredEvaluation, StoredIteration, StoredSnapshot

__all__ = ["NoStateError", "RunFolder", "RunReader", "StoredEvaluation", "StoredIteration", "StoredSnapshot"]
