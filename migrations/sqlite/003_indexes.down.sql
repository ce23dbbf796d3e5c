DROP INDEX sagas_live;
CREATE INDEX sagas_live ON sagas (status, updated_at) WHERE ended_at IS NULL;
CREATE INDEX sagas_quarantined ON sagas (id) WHERE claims >= 8;
