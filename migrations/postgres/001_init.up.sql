-- Times are milliseconds since 1970 by the database's clock, except where a column says otherwise.
-- Payloads are bytea: jsonb refuses \u0000, drops duplicate keys and rewrites numbers.

CREATE TABLE nodes (
    id         text   NOT NULL PRIMARY KEY,
    expires_at bigint NOT NULL
);

CREATE TABLE sagas (
    id           uuid    NOT NULL PRIMARY KEY,
    definition   text    NOT NULL,
    version      integer NOT NULL,
    sha256       text    NOT NULL,
    start_key    text    NULL,
    start_hash   text    NOT NULL,
    unique_value text    NULL,
    parent       uuid    NULL,
    retry_of     uuid    NULL,
    forked_from  uuid    NULL,
    created_at   bigint  NULL, -- by the starter's clock
    status       text    NOT NULL DEFAULT '',
    reason       text    NOT NULL DEFAULT '',
    labels       jsonb   NOT NULL DEFAULT '{}',
    wake_at      bigint  NULL, -- null: only mail wakes it
    summary      bytea   NULL,
    seq          bigint  NOT NULL DEFAULT 0,
    updated_at   bigint  NULL, -- by the writer's clock
    ended_at     bigint  NULL, -- by the writer's clock
    owner        text    NULL,
    mail         integer NOT NULL DEFAULT 0 -- messages not yet folded in
);
CREATE UNIQUE INDEX sagas_start_key ON sagas (start_key) WHERE start_key IS NOT NULL;
CREATE UNIQUE INDEX sagas_unique_value ON sagas (definition, unique_value)
    WHERE unique_value IS NOT NULL AND ended_at IS NULL;
CREATE INDEX sagas_due ON sagas (wake_at, id) WHERE owner IS NULL AND wake_at IS NOT NULL;
CREATE INDEX sagas_owner ON sagas (owner) WHERE owner IS NOT NULL;
CREATE INDEX sagas_mail ON sagas (owner) WHERE owner IS NOT NULL AND mail > 0;
CREATE INDEX sagas_definition ON sagas (definition, id);
CREATE INDEX sagas_status ON sagas (status, id);
CREATE INDEX sagas_labels ON sagas USING gin (labels jsonb_path_ops);

-- Insert-only. The primary key is the compare-and-swap against double writers.
CREATE TABLE journal (
    saga_id    uuid    NOT NULL,
    seq        bigint  NOT NULL,
    at         bigint  NOT NULL, -- by the writer's clock
    kind       text    NOT NULL,
    path       text    NOT NULL,
    way        text    NOT NULL,
    attempt    integer NOT NULL,
    generation integer NOT NULL,
    key        text    NOT NULL,
    class      text    NOT NULL,
    node       text    NOT NULL,
    data       bytea   NULL,
    hash       bytea   NOT NULL,
    PRIMARY KEY (saga_id, seq)
);

-- A folded message keeps its id without its data, so that posting it again stays the same as once.
CREATE TABLE mail (
    saga_id uuid    NOT NULL,
    id      uuid    NOT NULL,
    kind    text    NOT NULL,
    data    bytea   NULL,
    folded  boolean NOT NULL DEFAULT false,
    PRIMARY KEY (saga_id, id)
);

CREATE TABLE inbox (
    saga_id uuid   NOT NULL,
    id      uuid   NOT NULL,
    kind    text   NOT NULL,
    path    text   NOT NULL,
    since   bigint NOT NULL, -- by the writer's clock
    data    bytea  NULL,
    PRIMARY KEY (saga_id, id)
);
CREATE INDEX inbox_since ON inbox (since, id);

-- One row per published name: what serializes publishing it.
CREATE TABLE document_names (
    kind     text    NOT NULL,
    name     text    NOT NULL,
    newest   integer NOT NULL,
    archived boolean NOT NULL,
    PRIMARY KEY (kind, name)
);

CREATE TABLE documents (
    kind       text    NOT NULL,
    name       text    NOT NULL,
    version    integer NOT NULL,
    sha256     text    NOT NULL,
    source     bytea   NOT NULL,
    created_at bigint  NOT NULL,
    PRIMARY KEY (kind, name, version)
);

CREATE TABLE requests (
    key         text    NOT NULL PRIMARY KEY,
    fingerprint text    NOT NULL,
    done        boolean NOT NULL,
    status      integer NOT NULL,
    header      bytea   NULL,
    body        bytea   NULL,
    expires_at  bigint  NOT NULL
);
CREATE INDEX requests_expires_at ON requests (expires_at);

CREATE TABLE api_keys (
    id         uuid   NOT NULL PRIMARY KEY,
    name       text   NOT NULL,
    role       text   NOT NULL,
    hash       text   NOT NULL UNIQUE,
    created_at bigint NOT NULL,
    expires_at bigint NULL,
    binding    text   NOT NULL DEFAULT '{}'
);
