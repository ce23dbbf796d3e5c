ALTER TABLE sagas DROP COLUMN search_text;
