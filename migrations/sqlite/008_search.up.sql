-- What searches look in, in lower case; written with the row. It is the last column: what lists read comes before it. Sagas that were there
-- before are found by what their rows have, until they get another row.
ALTER TABLE sagas ADD COLUMN search_text TEXT NOT NULL DEFAULT '';
UPDATE sagas SET search_text = lower(definition || char(10) || reason || char(10) || coalesce((SELECT group_concat(value, char(10)) FROM json_each(labels)), ''));
