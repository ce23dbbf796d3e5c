-- Times are milliseconds since 1970 by the clock of the process, which has the file to itself.
-- Payloads are bytes, as they came. Ids are the sixteen bytes of a UUID.

CREATE TABLE nodes (
    id         TEXT   NOT NULL PRIMARY KEY,
    expires_at INTEGER NOT NULL
);

CREATE TABLE sagas (
    id           BLOB    NOT NULL PRIMARY KEY,
    definition   TEXT    NOT NULL,
    version      INTEGER NOT NULL,
    sha256       TEXT    NOT NULL,
    start_key    TEXT    NULL,
    start_hash   TEXT    NOT NULL,
    unique_value TEXT    NULL,
    parent       BLOB    NULL,
    retry_of     BLOB    NULL,
    forked_from  BLOB    NULL,
    created_at   INTEGER  NULL,
    status       TEXT    NOT NULL DEFAULT '',
    reason       TEXT    NOT NULL DEFAULT '',
    labels       TEXT    NOT NULL DEFAULT '{}',
    wake_at      INTEGER  NULL, -- null: only mail wakes it
    summary      BLOB   NULL,
    seq          INTEGER  NOT NULL DEFAULT 0,
    updated_at   INTEGER  NULL,
    ended_at     INTEGER  NULL,
    owner        TEXT    NULL,
    mail         INTEGER NOT NULL DEFAULT 0 -- messages not yet folded in
);
CREATE UNIQUE INDEX sagas_start_key ON sagas (start_key) WHERE start_key IS NOT NULL;
CREATE UNIQUE INDEX sagas_unique_value ON sagas (definition, unique_value)
    WHERE unique_value IS NOT NULL AND ended_at IS NULL;
CREATE INDEX sagas_due ON sagas (wake_at, id) WHERE owner IS NULL AND wake_at IS NOT NULL;
CREATE INDEX sagas_owner ON sagas (owner) WHERE owner IS NOT NULL;
CREATE INDEX sagas_mail ON sagas (owner) WHERE owner IS NOT NULL AND mail > 0;
CREATE INDEX sagas_definition ON sagas (definition, id);
CREATE INDEX sagas_status ON sagas (status, id);

-- Insert-only. The primary key is the compare-and-swap against double writers.
CREATE TABLE journal (
    saga_id    BLOB    NOT NULL,
    seq        INTEGER  NOT NULL,
    at         INTEGER  NOT NULL,
    kind       TEXT    NOT NULL,
    path       TEXT    NOT NULL,
    way        TEXT    NOT NULL,
    attempt    INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    key        TEXT    NOT NULL,
    class      TEXT    NOT NULL,
    node       TEXT    NOT NULL,
    data       BLOB   NULL,
    hash       BLOB   NOT NULL,
    PRIMARY KEY (saga_id, seq)
) WITHOUT ROWID;

-- A folded message keeps its id without its data, so that posting it again stays the same as once.
CREATE TABLE mail (
    saga_id BLOB    NOT NULL,
    id      BLOB    NOT NULL,
    kind    TEXT    NOT NULL,
    data    BLOB   NULL,
    folded  INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (saga_id, id)
) WITHOUT ROWID;

CREATE TABLE inbox (
    saga_id BLOB   NOT NULL,
    id      BLOB   NOT NULL,
    kind    TEXT   NOT NULL,
    path    TEXT   NOT NULL,
    since   INTEGER NOT NULL,
    data    BLOB  NULL,
    PRIMARY KEY (saga_id, id)
) WITHOUT ROWID;
CREATE INDEX inbox_since ON inbox (since, id);

-- One row per published name: what serializes publishing it.
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
    source     BLOB   NOT NULL,
    created_at INTEGER  NOT NULL,
    PRIMARY KEY (kind, name, version)
) WITHOUT ROWID;

CREATE TABLE requests (
    key         TEXT    NOT NULL PRIMARY KEY,
    fingerprint TEXT    NOT NULL,
    done        INTEGER NOT NULL,
    status      INTEGER NOT NULL,
    header      BLOB   NULL,
    body        BLOB   NULL,
    expires_at  INTEGER  NOT NULL
);
CREATE INDEX requests_expires_at ON requests (expires_at);

CREATE TABLE api_keys (
    id         BLOB   NOT NULL PRIMARY KEY,
    name       TEXT   NOT NULL,
    role       TEXT   NOT NULL,
    hash       TEXT   NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NULL,
    binding    TEXT    NOT NULL DEFAULT '{}'
);
