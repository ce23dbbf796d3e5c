package archive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// dir is a bucket in a directory: an object is a file. A file is written under another name,
// synced, and then renamed, so that it is whole and durable under its own.
type dir struct{ root string }

// unfinished is the directory of files that are being written. Its name is not part of any key.
const unfinished = ".unfinished"

// abandoned is the age from which on an unfinished file is surely of a process that has ended.
const abandoned = 24 * time.Hour

func openDir(path string, write bool) (*dir, error) {
	root, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	d := &dir{root: root}
	if !write {
		if info, err := os.Stat(root); err != nil {
			return nil, err
		} else if !info.IsDir() {
			return nil, fmt.Errorf("%s is not a directory", d)
		}
		return d, nil
	}
	if err := d.makeDir(filepath.Join(root, unfinished)); err != nil {
		return nil, fmt.Errorf("the archive %s cannot be used; name a directory that this user may write: %w", d, err)
	}
	return d, d.clean()
}

// clean removes files that a process left unfinished.
func (d *dir) clean() error {
	list, err := os.ReadDir(filepath.Join(d.root, unfinished))
	if err != nil {
		return err
	}
	for _, e := range list {
		info, err := e.Info()
		if err != nil || time.Since(info.ModTime()) < abandoned {
			continue // another process may be writing it
		}
		if err := os.Remove(filepath.Join(d.root, unfinished, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (d *dir) String() string { return "file://" + filepath.ToSlash(d.root) }

func (d *dir) file(key string) (string, error) {
	return filepath.Join(d.root, filepath.FromSlash(key)), checkKey(key)
}

// Put implements Bucket.
func (d *dir) Put(ctx context.Context, key string, data []byte) error {
	name, err := d.file(key)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Join(d.root, unfinished), "*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = d.makeDir(filepath.Dir(name))
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(filepath.Dir(name))
}

// makeDir makes a directory and its parents durable.
func (d *dir) makeDir(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	parent := filepath.Dir(path)
	if parent == path {
		return nil
	}
	if err := d.makeDir(parent); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(parent)
}

func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Get implements Bucket.
func (d *dir) Get(ctx context.Context, key string) ([]byte, error) {
	name, err := d.file(key)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", key, ErrNotFound)
	}
	return data, err
}

// List implements Bucket. It reads only the directories in which keys with the prefix can be.
func (d *dir) List(ctx context.Context, prefix string, each func(key string) error) error {
	return d.walk(ctx, "", prefix, each)
}

// walk lists the keys below a directory, whose name has a slash at its end unless it is the root.
func (d *dir) walk(ctx context.Context, below, prefix string, each func(string) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	list, err := os.ReadDir(filepath.Join(d.root, filepath.FromSlash(below)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	var keys []string
	for _, e := range list {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		key := below + e.Name()
		if e.IsDir() {
			key += "/"
		}
		if strings.HasPrefix(key, prefix) || e.IsDir() && strings.HasPrefix(prefix, key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys) // a slash counts, as in all keys
	for _, key := range keys {
		if strings.HasSuffix(key, "/") {
			err = d.walk(ctx, key, prefix, each)
		} else {
			err = each(key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Delete implements Bucket.
func (d *dir) Delete(ctx context.Context, key string) error {
	name, err := d.file(key)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// A missing file is no reason to skip the sync: that of an earlier call may have failed.
	if err := syncDir(filepath.Dir(name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
