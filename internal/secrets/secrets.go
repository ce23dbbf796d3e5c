// Package secrets provides the values of ${secrets.NAME}. They come from the environment
// (RECOURSE_SECRET_<NAME>) or from files in one directory, one file for each secret, as Kubernetes
// and Docker mount them. Values are read when they are used and are never stored. [Source.Redact]
// keeps them out of logs.
package secrets

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Prefix is the prefix of environment variables that contain secrets.
const Prefix = "RECOURSE_SECRET_"

// MaxSize is the most bytes that a secret may have.
const MaxSize = 64 << 10

// dirVariable is the variable of the flag --secret-dir. It has the prefix by accident.
const dirVariable = Prefix + "DIR"

// Errors that [New] and [Source.Get] wrap. None contains a secret's value.
var (
	ErrName    = errors.New("a secret's name has capital letters, digits and _, begins with a letter and has at most 63 characters")
	ErrMissing = errors.New("not provided")
	ErrInvalid = errors.New("not usable")
)

var namePattern = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,62}$`)

// Source returns secrets by name. It is safe for concurrent use.
type Source struct {
	dir      string
	env      map[string]string
	reserved map[string]string // by name: what else it is for
	given    redactor
}

// New returns a source of the secrets in dir ("" for none) and in environ, which has the form of
// os.Environ. An error says what to fix: dir is not a directory, or it lists all variables with the
// prefix whose names (ErrName) or values (ErrInvalid) are invalid. RECOURSE_SECRET_DIR is not a
// secret but the variable of a flag; the caller reads it.
func New(dir string, environ []string) (*Source, error) {
	s := &Source{dir: dir, env: map[string]string{}}
	var errs []error
	if dir != "" {
		if info, err := os.Stat(dir); err != nil {
			errs = append(errs, fmt.Errorf("--secret-dir cannot be read: %w", err))
		} else if !info.IsDir() {
			errs = append(errs, fmt.Errorf("--secret-dir %s is not a directory: name one that holds a file for each secret", dir))
		}
	}
	for _, entry := range environ {
		variable, value, _ := strings.Cut(entry, "=")
		name, ours := strings.CutPrefix(variable, Prefix)
		switch {
		case !ours || variable == dirVariable:
		case !namePattern.MatchString(name):
			errs = append(errs, fmt.Errorf("%s: %w", variable, ErrName))
		case len(value) > MaxSize:
			errs = append(errs, fmt.Errorf("%s is %w: it is larger than 64 KiB", variable, ErrInvalid))
		default:
			s.env[name] = value
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return s, nil
}

// Get returns the value of a secret: the environment's if it exists, else the content of its file
// without one trailing line break. Files are read again each time, so a rotated secret is used from
// the next request on.
//
// Errors wrap ErrName; ErrMissing, also for an empty value; or ErrInvalid for a file that is too
// large or not a regular file, and for a reserved secret. Each says how to fix it.
func (s *Source) Get(name string) (string, error) {
	if !namePattern.MatchString(name) {
		return "", fmt.Errorf("%.80q: %w", name, ErrName)
	}
	if purpose := s.reserved[name]; purpose != "" {
		return "", fmt.Errorf("secret %s is %w: %s, so no saga may have it", name, ErrInvalid, purpose)
	}
	value, ok := s.env[name]
	if !ok && s.dir != "" {
		var err error
		if value, err = s.read(name); err != nil {
			return "", err
		}
	}
	if value == "" {
		return "", s.missing(name)
	}
	s.given.add(value)
	return value, nil
}

// Reserve keeps a secret of the server itself from sagas, which anybody writes who may publish
// definitions: from now on, Get returns an error that says what the secret is for. Call it before
// the source is used concurrently.
func (s *Source) Reserve(name, purpose string) {
	if s.reserved == nil {
		s.reserved = make(map[string]string)
	}
	s.reserved[name] = purpose
}

func (s *Source) missing(name string) error {
	if name == "DIR" {
		return fmt.Errorf("secret DIR is %w: write it to a file DIR in --secret-dir (%s names that directory), or rename it", ErrMissing, dirVariable)
	}
	return fmt.Errorf("secret %s is %w: set %s%s, or write it to a file %s in --secret-dir", name, ErrMissing, Prefix, name, name)
}

func (s *Source) read(name string) (string, error) {
	path := filepath.Join(s.dir, name) // name contains no separator and no dot
	info, err := os.Stat(path)         // follows links, because Kubernetes mounts secrets as links
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", s.missing(name)
	case err != nil:
		return "", fmt.Errorf("secret %s cannot be read, check the file's permissions: %w", name, err)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("secret %s is %w: %s must be a regular file", name, ErrInvalid, path)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("secret %s cannot be read, check the file's permissions: %w", name, err)
	}
	defer func() { _ = f.Close() }()
	content, err := io.ReadAll(io.LimitReader(f, MaxSize+3)) // the line break does not count
	if err != nil {
		return "", fmt.Errorf("secret %s cannot be read: %w", name, err)
	}
	value := strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r")
	if len(value) > MaxSize {
		return "", fmt.Errorf("secret %s is %w: %s is larger than 64 KiB", name, ErrInvalid, path)
	}
	return value, nil
}

// Names returns the sorted names of the existing secrets. Files whose names are not valid names of
// secrets are skipped.
func (s *Source) Names() []string {
	var names []string
	for name := range s.env {
		names = append(names, name)
	}
	if s.dir != "" {
		entries, _ := os.ReadDir(s.dir) // an unreadable directory has no names; Get reports why
		for _, e := range entries {
			if namePattern.MatchString(e.Name()) && !e.IsDir() {
				names = append(names, e.Name())
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
