DROP INDEX sagas_live;
DROP INDEX sagas_quarantined;
DROP INDEX sagas_suspect;
DROP INDEX sagas_due;
ALTER TABLE sagas DROP COLUMN claims;
CREATE INDEX sagas_due ON sagas (wake_at, id) WHERE owner IS NULL AND wake_at IS NOT NULL;
