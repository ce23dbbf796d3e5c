/*
Package archive moves ended sagas from the database to a bucket, and reads them there.

# The promise

Nothing is deleted that is not archived and read back. When the retention of a saga has ended, the
[Archiver] takes these steps, and stops at the first that fails:

 1. It reads the saga's journal and checks the hash chain. The number of records must be that of the
    saga's row. A saga that does not pass, or whose journal cannot be read, stays in the database,
    and is reported.
 2. It stores the saga's content, if it has any, and then an object with the journals of many sagas.
 3. It reads the object back, compares it byte for byte, decompresses it, checks the hash chain of
    each journal again, and compares its length and last hash with the database's.
 4. It stores index objects, which say where each saga is, and reads them back.
 5. It deletes the sagas, in transactions that check that each is still what was copied: see
    journal.Retention.

After a crash, or an error, the sagas that are still in the database are archived once more, under
another key. So a saga may be in the archive several times. All copies are identical, because the
journal of an ended saga never changes. Two archivers at once do no harm for the same reason.

# Objects

An object is never changed once its index objects exist. All objects are NDJSON, compressed as one
zstd frame with a checksum, so an object of which a part is missing cannot be read.

	sagas/DAY/DEFINITION/ID.ndjson.zst      journals of sagas that ended on a day (UTC)
	index/DAY/FIRST.LAST.ID.ndjson.zst      where the sagas that were started on a day are
	content/DAY/SAGA/NNNN.ndjson.zst        blobs of one saga that was started on a day

A line of the first is a record as `recourse journal -o json` prints it, with the saga's id. The
journal of a saga is in one object. A line of an index is an [Entry]. FIRST and LAST are the least
and the greatest id in it. As a saga's id has the time of its start, the index objects of one day
are enough to find a saga. The content of a saga is apart from its journal, so that it can be erased
by deleting its objects.

An object without an index object is one whose archiver crashed. No reader trusts it, and its sagas
are in the database, or in another object.
*/
package archive
