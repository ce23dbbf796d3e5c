-- Where in a trace the task comes from: what its worker carries on.
ALTER TABLE tasks ADD COLUMN traceparent TEXT NULL;
