-- An index on sagas costs every start and every end, so there are as few as will do.
-- What is counted of live sagas is in one index, without the sagas; those in quarantine are among the stuck ones.
DROP INDEX sagas_quarantined;
DROP INDEX sagas_live;
CREATE INDEX sagas_live ON sagas (status, definition, updated_at) WHERE ended_at IS NULL;
