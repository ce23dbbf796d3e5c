package verify

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/gofrs/uuid/v5"

	"recourse/internal/archive"
	"recourse/internal/cli"
	"recourse/internal/invariant"
	"recourse/journal"
)

// copied is a saga of the archive.
type copied struct {
	hash    [sha256.Size]byte // of the last record
	object  string
	indexed bool // one of its objects has an index
}

// copies are the objects of one definition and day. All copies of a saga are among them.
type copies struct {
	*check
	bucket archive.Bucket
	sagas  map[uuid.UUID]*copied
	define func(*invariant.Saga) error
}

// archive checks the sagas of an archive, and that its objects and index objects belong together.
func (v *check) archive(define func(*invariant.Saga) error) error {
	ctx := v.app.Ctx
	bucket, err := archive.OpenReadOnly(ctx, v.cmd.Archive)
	if err != nil {
		return cli.Exit(cli.Usage, fmt.Errorf("--archive: %w", err))
	}
	parts, strange, err := archive.Parts(ctx, bucket)
	if err != nil {
		return err
	}
	for _, key := range strange {
		v.damaged(uuid.Nil, "%s is not an object of the archive: move it elsewhere", key)
	}
	progress := v.app.Progress("objects", len(parts))
	defer progress.End()
	s := &copies{check: v, bucket: bucket, define: define}
	for i, p := range parts {
		progress.At(i)
		if i == 0 || p.Day != parts[i-1].Day || p.Definition != parts[i-1].Definition {
			s.end()
			s.sagas = make(map[uuid.UUID]*copied)
		}
		if err := s.part(p); err != nil {
			return err
		}
	}
	s.end()
	return archive.Dangling(ctx, bucket, parts, func(key string) {
		v.damaged(uuid.Nil, "the object of the index %s is missing, with the sagas in it: restore it from a backup of the archive", key)
	})
}

// damaged adds a violation of the archive.
func (v *check) damaged(saga uuid.UUID, format string, args ...any) {
	v.checker.Report(invariant.Violation{N: 2, Saga: saga, Text: fmt.Sprintf(format, args...)})
}

// part checks an object.
func (s *copies) part(p archive.Part) error {
	object, err := s.bucket.Get(s.app.Ctx, p.Key)
	if err != nil {
		return err
	}
	var list []archive.Entry
	var failed error
	err = archive.Journals(object, func(j archive.Journal) error {
		last := j.Records[len(j.Records)-1].Hash
		list = append(list, archive.Entry{Saga: j.Saga, Records: int64(len(j.Records)), Hash: hex.EncodeToString(last)})
		failed = s.journal(p, j)
		return failed
	})
	switch {
	case failed != nil:
		return failed
	case err != nil:
		s.damaged(uuid.Nil, "%s: %s: restore it from a backup of the archive", p.Key, err)
		return nil
	}
	switch err := archive.CheckIndex(s.app.Ctx, s.bucket, p, list); {
	case errors.Is(err, archive.ErrNoIndex):
		return nil
	case errors.Is(err, archive.ErrDamaged):
		s.damaged(uuid.Nil, "%s: restore it from a backup of the archive", err)
	case err != nil:
		return err
	}
	for _, e := range list {
		s.sagas[e.Saga].indexed = true
	}
	return nil
}

// journal checks the journal of a saga in an object. Further copies of it must be the same.
func (s *copies) journal(p archive.Part, j archive.Journal) error {
	var hash [sha256.Size]byte
	copy(hash[:], j.Records[len(j.Records)-1].Hash)
	other := s.sagas[j.Saga]
	if other == nil {
		s.sagas[j.Saga] = &copied{hash: hash, object: p.Key}
		s.archived++
	}
	there, inDatabase := s.rows[j.Saga]
	if other == nil && !inDatabase {
		return s.first(j)
	}
	if err := journal.Verify(j.Saga, nil, 1, j.Records); err != nil {
		s.damaged(j.Saga, "%s: %s", p.Key, err)
	}
	if other != nil && other.hash != hash {
		s.damaged(j.Saga, "its journals in %s and %s differ", other.object, p.Key)
	}
	if inDatabase && there != ([sha256.Size]byte{}) && there != hash {
		s.damaged(j.Saga, "its journals in the database and in %s differ", p.Key)
	}
	return nil
}

// first checks a saga of which no copy was checked before.
func (s *copies) first(j archive.Journal) error {
	one := invariant.Saga{ID: j.Saga, Records: j.Records}
	if err := s.define(&one); err != nil {
		return err
	}
	s.compare(&one)
	s.checker.Add(s.checker.Check(one))
	return nil
}

// end checks that sagas without an index are in the database.
func (s *copies) end() {
	for id, c := range s.sagas { // any order: the report sorts them
		if c.indexed {
			continue
		}
		s.unfinished++
		if _, ok := s.rows[id]; !ok && s.rows != nil {
			s.damaged(id, "it is not in the database, and its object %s has no index, so that nobody finds it", c.object)
		}
	}
}
