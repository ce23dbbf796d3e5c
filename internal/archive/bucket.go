package archive

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
)

// ErrNotFound means that a bucket has no such object, or the archive no such saga.
var ErrNotFound = errors.New("not in the archive")

// Bucket stores objects. A key is a path of names with slashes between them; no name is empty or
// begins with a dot. All methods may be called concurrently, and may be repeated after an error.
type Bucket interface {
	// Put stores an object, and replaces an earlier one with this key. When it returns nil, the
	// object is durable. Whenever it fails, also in a crash, readers see the whole object, or the
	// earlier one, or none: never a part of it.
	Put(ctx context.Context, key string, data []byte) error
	// Get returns an object. Errors: ErrNotFound.
	Get(ctx context.Context, key string) ([]byte, error)
	// List calls each for every key that begins with prefix, in ascending order. An error of each
	// ends the list, and is returned. An object that is stored or deleted meanwhile may be listed
	// or not.
	List(ctx context.Context, prefix string, each func(key string) error) error
	// Delete removes an object. It is no error if there is none.
	Delete(ctx context.Context, key string) error
	// String returns the bucket's URL without secrets.
	String() string
}

// Open opens the bucket that a text names: a directory or file:///DIR, which is created.
func Open(ctx context.Context, text string) (Bucket, error) { return open(ctx, text, true) }

// OpenReadOnly is Open for a reader, which creates nothing.
func OpenReadOnly(ctx context.Context, text string) (Bucket, error) { return open(ctx, text, false) }

func open(_ context.Context, text string, write bool) (Bucket, error) {
	path, err := Dir(text)
	if err != nil {
		return nil, err
	}
	return openDir(path, write)
}

// Dir returns the directory that the name of a bucket stands for.
func Dir(text string) (path string, err error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || !strings.Contains(text, "://"):
		path = text
	case u.Scheme == "file" && u.Host == "" && u.RawQuery == "":
		path = filepath.FromSlash(u.Path)
	case u.Scheme == "file":
		return "", fmt.Errorf("%s: write a directory as file:///path, with three slashes and no query", text)
	default:
		return "", fmt.Errorf("%s is not an archive: write a directory, or file:///path", u.Redacted())
	}
	if path == "" {
		return "", errors.New("the archive has no name: write a directory, or file:///path")
	}
	return path, nil
}

// checkKey refuses a key that is not a path below the bucket.
func checkKey(key string) error {
	for name := range strings.SplitSeq(key, "/") {
		if name == "" || name[0] == '.' || strings.ContainsAny(name, "\\\x00") {
			return fmt.Errorf("%q is not the key of an object", key)
		}
	}
	return nil
}
