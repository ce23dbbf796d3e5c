-- When a saga that has ended may be deleted: by the writer's clock.
ALTER TABLE sagas ADD COLUMN delete_at INTEGER NULL;
CREATE INDEX sagas_delete ON sagas (delete_at) WHERE delete_at IS NOT NULL AND ended_at IS NOT NULL;

-- Work for outside workers. A task that has ended stays for a day without its input, so that ending it again stays the same as once.
CREATE TABLE tasks (
    id        BLOB    NOT NULL PRIMARY KEY,
    saga_id   BLOB    NOT NULL,
    path      TEXT    NOT NULL,
    way       TEXT    NOT NULL,
    attempt   INTEGER NOT NULL,
    key       TEXT    NOT NULL,
    type      TEXT    NOT NULL,
    input     BLOB    NULL,
    lease     INTEGER NOT NULL, -- in milliseconds, as the others
    timeout   INTEGER NOT NULL,
    made_at   INTEGER NOT NULL,
    withdrawn INTEGER NOT NULL DEFAULT 0,
    token     BLOB    NULL, -- of its claim; null: nobody has claimed it
    worker    TEXT    NULL,
    held_for  INTEGER NULL, -- the lease that the claim asked for, or the task's own
    until     INTEGER NULL, -- when it meets its fate: the lease's end, or when it was withdrawn unclaimed
    deadline  INTEGER NULL,
    ended_at  INTEGER NULL,
    how       TEXT    NULL  -- who ended it has said so; null: its fate did
);
CREATE INDEX tasks_saga ON tasks (saga_id);
CREATE INDEX tasks_waiting ON tasks (type, made_at, id) WHERE token IS NULL AND NOT withdrawn;
CREATE INDEX tasks_token ON tasks (token) WHERE token IS NOT NULL;
CREATE INDEX tasks_until ON tasks (until, id) WHERE until IS NOT NULL AND ended_at IS NULL;
CREATE INDEX tasks_ended ON tasks (ended_at) WHERE ended_at IS NOT NULL;

-- Events until they are delivered, once for each sink. They outlive their saga.
CREATE TABLE outbox (
    id        BLOB    NOT NULL,
    sink      TEXT    NOT NULL,
    saga_id   BLOB    NOT NULL,
    data      BLOB    NULL,
    made_at   INTEGER NOT NULL,
    due_at    INTEGER NOT NULL,
    attempts  INTEGER NOT NULL DEFAULT 0, -- that failed
    failed_at INTEGER NULL,               -- the last one
    why       TEXT    NULL,
    PRIMARY KEY (id, sink)
);
CREATE INDEX outbox_due ON outbox (due_at, id, sink);

CREATE TABLE schedules (
    name     TEXT    NOT NULL PRIMARY KEY,
    fired_at INTEGER NOT NULL
);
