-- docs/format.md describes the tables. Times are milliseconds since 1970 by the clock of the
-- serving process. Payloads are stored byte for byte. Ids are the sixteen bytes of a UUID.

-- Always empty. On PostgreSQL it has the cluster and the timeline of the database; a file has
-- neither.
CREATE TABLE installation (
    one      INTEGER NOT NULL DEFAULT 1 PRIMARY KEY CHECK (one = 1),
    id       BLOB    NOT NULL,
    system   INTEGER NOT NULL,
    timeline INTEGER NOT NULL
);

CREATE TABLE nodes (
    id         TEXT    NOT NULL PRIMARY KEY,
    expires_at INTEGER NOT NULL
);

CREATE TABLE sagas (
    id               BLOB    NOT NULL PRIMARY KEY,
    definition       TEXT    NOT NULL,
    version          INTEGER NOT NULL,
    sha256           BLOB    NOT NULL,
    start_key        TEXT    NULL,
    start_hash       TEXT    NOT NULL,
    unique_value     TEXT    NULL,
    opener           TEXT    NULL, -- the key that has opened a session
    local            INTEGER NULL, -- 1 or null: a command runs the saga in its own process
    parent           BLOB    NULL,
    retry_of         BLOB    NULL,
    forked_from      BLOB    NULL,
    created_at       INTEGER NULL,
    status           TEXT    NOT NULL DEFAULT '',
    reason           TEXT    NOT NULL DEFAULT '',
    labels           TEXT    NOT NULL DEFAULT '{}',
    wake_at          INTEGER NULL, -- null: only a message wakes the saga
    summary          BLOB    NULL,
    seq              INTEGER NOT NULL DEFAULT 0,
    updated_at       INTEGER NULL,
    ended_at         INTEGER NULL,
    owner            TEXT    NULL,
    pending_messages INTEGER NOT NULL DEFAULT 0, -- messages that are not applied yet
    claims           INTEGER NOT NULL DEFAULT 0, -- claims since the saga last made progress
    delete_at        INTEGER NULL, -- when an ended saga may be deleted
    -- The text that searches read, in lower case. It is the last column, because lists read only
    -- the columns before it.
    search_text      TEXT    NOT NULL DEFAULT ''
);
-- Every start and every end updates the indexes of sagas, so there are as few as possible.
CREATE UNIQUE INDEX sagas_start_key ON sagas (start_key) WHERE start_key IS NOT NULL;
CREATE UNIQUE INDEX sagas_unique_value ON sagas (definition, unique_value) WHERE unique_value IS NOT NULL AND ended_at IS NULL;
-- Only sessions have an opener.
CREATE INDEX sagas_opener ON sagas (opener) WHERE opener IS NOT NULL AND ended_at IS NULL;
-- A saga with two or more claims without progress is claimed apart from the others.
CREATE INDEX sagas_due ON sagas (wake_at, id) WHERE owner IS NULL AND wake_at IS NOT NULL AND claims < 2;
CREATE INDEX sagas_suspect ON sagas (wake_at, id) WHERE owner IS NULL AND wake_at IS NOT NULL AND claims >= 2;
CREATE INDEX sagas_local ON sagas (wake_at, id) WHERE owner IS NULL AND wake_at IS NOT NULL AND local IS NOT NULL;
CREATE INDEX sagas_owner ON sagas (owner) WHERE owner IS NOT NULL;
CREATE INDEX sagas_pending_messages ON sagas (owner) WHERE owner IS NOT NULL AND pending_messages > 0;
-- The indexes of lists and counts leave out the sagas that a node runs, because a saga would be
-- written to them at its start and again at its end. These are few, and sagas_owner has them.
-- (SQLite would read the table if the first two indexes did not have the owner, which is null.)
CREATE INDEX sagas_definition ON sagas (definition, id, owner) WHERE owner IS NULL;
CREATE INDEX sagas_status ON sagas (status, id, owner) WHERE owner IS NULL;
CREATE INDEX sagas_live ON sagas (status, definition, updated_at) WHERE ended_at IS NULL AND owner IS NULL;
CREATE INDEX sagas_delete ON sagas (delete_at) WHERE delete_at IS NOT NULL AND ended_at IS NOT NULL;

-- Labels of sagas in the order of lists, so that a list by label is as fast as one by status. A
-- value has at most 256 characters. Triggers write them with the saga's row.
CREATE TABLE saga_labels (
    name    TEXT    NOT NULL,
    value   TEXT    NOT NULL,
    saga_id BLOB    NOT NULL,
    PRIMARY KEY (name, value, saga_id)
) WITHOUT ROWID;
CREATE TRIGGER sagas_labelled AFTER INSERT ON sagas WHEN new.labels <> '{}' BEGIN
    INSERT INTO saga_labels (name, value, saga_id) SELECT key, value, new.id FROM json_each(new.labels);
END;
CREATE TRIGGER sagas_relabelled AFTER UPDATE OF labels ON sagas WHEN old.labels <> new.labels BEGIN
    DELETE FROM saga_labels WHERE (name, value, saga_id) IN (SELECT key, value, old.id FROM json_each(old.labels));
    INSERT INTO saga_labels (name, value, saga_id) SELECT key, value, new.id FROM json_each(new.labels);
END;
CREATE TRIGGER sagas_unlabelled AFTER DELETE ON sagas WHEN old.labels <> '{}' BEGIN
    DELETE FROM saga_labels WHERE (name, value, saga_id) IN (SELECT key, value, old.id FROM json_each(old.labels));
END;

-- The journal is insert-only. A row has the records of one append, packed. Its primary key is the
-- compare-and-swap against a second writer.
CREATE TABLE journal (
    saga_id BLOB    NOT NULL,
    seq     INTEGER NOT NULL, -- of the first record
    last    INTEGER NOT NULL, -- seq of the last record
    at      INTEGER NOT NULL, -- of the last record
    data    BLOB    NOT NULL,
    PRIMARY KEY (saga_id, seq)
) WITHOUT ROWID;

-- Deleted sagas whose journals are still there. SQLite has none, because only partitions of
-- PostgreSQL are dropped later.
CREATE TABLE deferred_deletes (
    id         BLOB    NOT NULL PRIMARY KEY,
    first      BLOB    NOT NULL,
    sagas      BLOB    NOT NULL,
    deleted_at INTEGER NOT NULL
);

-- Text that records are like, by which rows of the journal are compressed. Rows of the journal
-- cannot be read without the text that they name, so none is deleted.
CREATE TABLE dictionaries (
    id   INTEGER NOT NULL PRIMARY KEY, -- the first 32 bits of the text's SHA-256
    data BLOB    NOT NULL
);

-- Content that records refer to by its hash, which is the SHA-256 of the content before it was
-- compressed. Erasing the content of a saga leaves its journal as it is. The table has rowids, so
-- that a search by hash does not read the data of other rows.
CREATE TABLE blobs (
    saga_id BLOB NOT NULL,
    hash    BLOB NOT NULL,
    data    BLOB NOT NULL,
    PRIMARY KEY (saga_id, hash)
);

-- An applied message keeps its id and loses its data, so that sending it again changes nothing.
CREATE TABLE messages (
    saga_id BLOB    NOT NULL,
    id      BLOB    NOT NULL,
    kind    TEXT    NOT NULL,
    data    BLOB    NULL,
    applied INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (saga_id, id)
) WITHOUT ROWID;

CREATE TABLE inbox (
    saga_id BLOB    NOT NULL,
    id      BLOB    NOT NULL,
    kind    TEXT    NOT NULL,
    path    TEXT    NOT NULL,
    since   INTEGER NOT NULL,
    data    BLOB    NULL,
    PRIMARY KEY (saga_id, id)
) WITHOUT ROWID;
CREATE INDEX inbox_since ON inbox (since, id);

-- Tasks for workers. An ended task stays for a day without its input, so that ending it again
-- changes nothing.
CREATE TABLE tasks (
    id          BLOB    NOT NULL PRIMARY KEY,
    saga_id     BLOB    NOT NULL,
    path        TEXT    NOT NULL,
    way         TEXT    NOT NULL,
    attempt     INTEGER NOT NULL,
    key         TEXT    NOT NULL,
    type        TEXT    NOT NULL,
    input       BLOB    NULL,
    lease       INTEGER NOT NULL, -- in milliseconds, as the other durations
    timeout     INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    withdrawn   INTEGER NOT NULL DEFAULT 0,
    token       BLOB    NULL, -- of the claim; null: not claimed
    worker      TEXT    NULL,
    claim_lease INTEGER NULL, -- the lease that the claim asked for, or else the task's own
    ends_at     INTEGER NULL, -- when the store ends it: at the end of its lease, or when it was withdrawn unclaimed
    deadline    INTEGER NULL,
    ended_at    INTEGER NULL,
    result      TEXT    NULL, -- fingerprint of the worker's report; null: the store has ended the task
    traceparent TEXT    NULL  -- the trace that its worker continues
);
CREATE INDEX tasks_saga ON tasks (saga_id);
CREATE INDEX tasks_waiting ON tasks (type, created_at, id) WHERE token IS NULL AND NOT withdrawn;
CREATE INDEX tasks_token ON tasks (token) WHERE token IS NOT NULL;
CREATE INDEX tasks_ends_at ON tasks (ends_at, id) WHERE ends_at IS NOT NULL AND ended_at IS NULL;
CREATE INDEX tasks_ended ON tasks (ended_at) WHERE ended_at IS NOT NULL;

-- Events until they are delivered, one row for each sink. They outlive their saga.
CREATE TABLE outbox (
    id         BLOB    NOT NULL,
    sink       TEXT    NOT NULL,
    saga_id    BLOB    NOT NULL,
    data       BLOB    NULL,
    created_at INTEGER NOT NULL,
    due_at     INTEGER NOT NULL,
    attempts   INTEGER NOT NULL DEFAULT 0, -- failed attempts
    failed_at  INTEGER NULL,               -- time of the last failed attempt
    error      TEXT    NULL,               -- of the last failed attempt
    PRIMARY KEY (id, sink)
);
CREATE INDEX outbox_due ON outbox (sink, due_at, id);
CREATE INDEX outbox_created ON outbox (sink, created_at);
CREATE INDEX outbox_failed ON outbox (sink, failed_at, id) WHERE failed_at IS NOT NULL;

-- Sagas and steps that make no progress. A row is shown until shown_until and kept for a while
-- longer, so that each is reported once.
CREATE TABLE stalls (
    id          BLOB    NOT NULL PRIMARY KEY,
    saga_id     BLOB    NOT NULL,
    kind        TEXT    NOT NULL,
    path        TEXT    NOT NULL, -- empty: the saga itself
    since       INTEGER NOT NULL,
    detail      TEXT    NOT NULL,
    shown_until INTEGER NOT NULL
);
CREATE INDEX stalls_saga ON stalls (saga_id);
CREATE INDEX stalls_shown_until ON stalls (shown_until);

CREATE TABLE schedules (
    name     TEXT    NOT NULL PRIMARY KEY,
    fired_at INTEGER NOT NULL
);

-- Definitions and actions: one row for each published name, which publishing locks.
CREATE TABLE document_names (
    kind     TEXT    NOT NULL,
    name     TEXT    NOT NULL,
    newest   INTEGER NOT NULL,
    archived INTEGER NOT NULL,
    PRIMARY KEY (kind, name)
) WITHOUT ROWID;

CREATE TABLE documents (
    kind       TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    version    INTEGER NOT NULL,
    sha256     TEXT    NOT NULL,
    source     BLOB    NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (kind, name, version)
) WITHOUT ROWID;

-- Responses that are kept for clients' Idempotency-Keys.
CREATE TABLE requests (
    key         TEXT    NOT NULL PRIMARY KEY,
    fingerprint TEXT    NOT NULL,
    done        INTEGER NOT NULL,
    status      INTEGER NOT NULL,
    header      BLOB    NULL,
    body        BLOB    NULL,
    expires_at  INTEGER NOT NULL
);
CREATE INDEX requests_expires_at ON requests (expires_at);

CREATE TABLE api_keys (
    id         BLOB    NOT NULL PRIMARY KEY,
    name       TEXT    NOT NULL,
    role       TEXT    NOT NULL,
    hash       TEXT    NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NULL,
    binding    TEXT    NOT NULL DEFAULT '{}'
);
