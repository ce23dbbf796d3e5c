DROP TABLE schedules;
DROP TABLE outbox;
DROP TABLE tasks;
DROP INDEX sagas_delete;
ALTER TABLE sagas DROP COLUMN delete_at;
