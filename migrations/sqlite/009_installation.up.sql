-- As on PostgreSQL, whose clusters and timelines it tells apart; a file has none, and no row.
CREATE TABLE installation (
    one      INTEGER NOT NULL DEFAULT 1 PRIMARY KEY CHECK (one = 1),
    id       BLOB    NOT NULL,
    system   INTEGER NOT NULL,
    timeline INTEGER NOT NULL
);
