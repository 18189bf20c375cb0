"""The tables of the store. Bits are kept, never what can be computed from them."""

SCHEMA_VERSION = 1

# History, weights, fitness, buffer and the next batch are functions of these columns and of the job.
_DEFINITIONS = """
CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value BLOB NOT NULL
) WITHOUT ROWID;

CREATE TABLE iterations (
    iteration     INTEGER PRIMARY KEY,
    stage         INTEGER NOT NULL,
    epoch         INTEGER NOT NULL,
    problems      BLOB NOT NULL,     -- little-endian uint32 [B]
    replayed      BLOB NOT NULL,     -- bits [B]
    passed        BLOB NOT NULL,     -- bits, a padded row of ceil(B/8) bytes per member [N, B]
    truncated     BLOB NOT NULL,     -- as passed
    scores        BLOB,              -- zlib of little-endian float32 [N, B]; NULL where they equal the passes
    auxiliary     BLOB,              -- as scores; NULL where all are zero
    parent_passed BLOB,              -- bits [B]; NULL unless evaluation.parent
    row           BLOB NOT NULL,     -- journal row
    row_hash      BLOB NOT NULL,
    beside        TEXT NOT NULL      -- JSON outside every hash: seconds, tokens, workers, attempts
);

CREATE TABLE evaluations (
    iteration INTEGER NOT NULL,      -- number of updates in the evaluated weights
    set_name  TEXT NOT NULL,
    problems  INTEGER NOT NULL,
    passed    BLOB NOT NULL,         -- bits [problems]
    truncated BLOB NOT NULL,
    beside    TEXT NOT NULL,
    PRIMARY KEY (iteration, set_name)
) WITHOUT ROWID;

CREATE TABLE attestations (
    iteration INTEGER NOT NULL,
    worker    TEXT NOT NULL,
    digest    TEXT NOT NULL,
    rebuilt   INTEGER NOT NULL,
    PRIMARY KEY (iteration, worker)
) WITHOUT ROWID;

CREATE TABLE snapshots (
    iteration INTEGER PRIMARY KEY,
    row_hash  BLOB NOT NULL,
    digest    TEXT NOT NULL,
    file      TEXT NOT NULL
);

CREATE TABLE events (
    id     INTEGER PRIMARY KEY,
    time   REAL NOT NULL,
    reason TEXT NOT NULL,
    text   TEXT NOT NULL
);
"""

TABLES = tuple(_DEFINITIONS.strip().split("\n\n"))
"""One statement per table."""
