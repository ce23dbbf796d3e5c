-- What does not move: shown until a time, and known for a while longer, so that it is told once.
CREATE TABLE stalls (
    id      BLOB NOT NULL PRIMARY KEY,
    saga_id BLOB NOT NULL,
    kind    TEXT NOT NULL,
    path    TEXT NOT NULL, -- empty: the saga itself
    since   INTEGER NOT NULL,
    why     TEXT NOT NULL,
    until   INTEGER NOT NULL
);
CREATE INDEX stalls_saga ON stalls (saga_id);
CREATE INDEX stalls_until ON stalls (until);
