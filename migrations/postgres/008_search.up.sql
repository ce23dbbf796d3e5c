-- What searches look in, in lower case; written with the row. It is the last column: what lists read comes before it. Sagas that were there
-- before are found by what their rows have, until they get another row.
ALTER TABLE sagas ADD COLUMN search_text text NOT NULL DEFAULT '';
UPDATE sagas SET search_text = lower(definition || chr(10) || reason || chr(10) || coalesce((SELECT string_agg(value, chr(10)) FROM jsonb_each_text(labels)), ''));
