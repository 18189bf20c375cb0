"""The tables of the store. Bits are kept, never what can be computed from them."""

SCHEMA_VERSION = 2

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
    scores        BLOB,              -- zlib of little-endian float32 [N, B]; NULL where passes decide
    auxiliary     BLOB,              -- as scores; NULL where all are zero
    parent_passed BLOB,              -- bits [B]; NULL unless the parent was evaluated
    parent_scores BLOB,              -- zlib of little-endian float32 [B]; NULL unless passes depend on them
    row           BLOB NOT NULL,     -- journal row
    row_hash      BLOB NOT NULL,
    beside        TEXT NOT NULL      -- JSON outside every hash: seconds, tokens, workers, attempts
);

CREATE TABLE evaluations (
    iteration INTEGER NOT NULL,      -- number of updates in the evaluated weights
    set_name  TEXT NOT NULL,
    problems  INTEGER NOT NULL,
    samples   INTEGER NOT NULL,      -- answers to each problem, side by side in what follows
    passed    BLOB NOT NULL,         -- bits [problems * samples]
    truncated BLOB NOT NULL,         -- as passed
    keys      BLOB,                  -- zlib of little-endian uint64 [problems * samples]; NULL for one sample
    scores    BLOB,                  -- zlib of little-endian float32, likewise; NULL where no rule needs them
    beside    TEXT NOT NULL,         -- JSON: tokens, shares and means of the answers
    PRIMARY KEY (iteration, set_name)
) WITHOUT ROWID;

CREATE TABLE completions (
    iteration INTEGER NOT NULL,
    set_name  TEXT NOT NULL,
    row       INTEGER NOT NULL,
    sample    INTEGER NOT NULL,
    prompt    TEXT NOT NULL,
    text      TEXT NOT NULL,
    passed    INTEGER NOT NULL,
    score     REAL NOT NULL,
    reason    TEXT NOT NULL,
    PRIMARY KEY (iteration, set_name, row, sample)
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
