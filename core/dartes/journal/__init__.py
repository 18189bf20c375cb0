"""The journal: seeds and coefficients per iteration, which with the base model are the fine-tuned model.

Reads, writes, verifies and replays it. Knows no problem, no reward and no engine.
"""

from dartes.journal.errors import DamagedJournalError, JournalError
from dartes.journal.file import (
    SUFFIX,
    GoodPrefix,
    Journal,
    append_row,
    read_good_prefix,
    read_journal,
    write_journal,
)
from dartes.journal.records import FORMAT_VERSION, JournalHeader, JournalRow, chain, row_hash
from dartes.journal.replay import (
    Exported,
    ReplayReader,
    export,
    replay_digests,
    replay_onto,
    require_base,
    require_snapshot,
    shapes_of,
)

__all__ = [
    "FORMAT_VERSION",
    "SUFFIX",
    "DamagedJournalError",
    "Exported",
    "GoodPrefix",
    "Journal",
    "JournalError",
    "JournalHeader",
    "JournalRow",
    "ReplayReader",
    "append_row",
    "chain",
    "export",
    "read_good_prefix",
    "read_journal",
    "replay_digests",
    "replay_onto",
    "require_base",
    "require_snapshot",
    "row_hash",
    "shapes_of",
    "write_journal",
]
