-- Claims since the saga last made progress. A saga that has two or more is claimed apart from the others.
ALTER TABLE sagas ADD COLUMN claims INTEGER NOT NULL DEFAULT 0;
DROP INDEX sagas_due;
CREATE INDEX sagas_due ON sagas (wake_at, id) WHERE owner IS NULL AND wake_at IS NOT NULL AND claims < 2;
CREATE INDEX sagas_suspect ON sagas (wake_at, id) WHERE owner IS NULL AND wake_at IS NOT NULL AND claims >= 2;
CREATE INDEX sagas_quarantined ON sagas (id) WHERE claims >= 8;
CREATE INDEX sagas_live ON sagas (status, updated_at) WHERE ended_at IS NULL;
