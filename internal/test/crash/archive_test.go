package crash

import (
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"recourse/journal"
)

// archivePoints are the places in an archiver where a crash could lose a saga, in order.
var archivePoints = []string{"archive.stored", "archive.read_back", "archive.indexed", "archive.deleted"}

// A server is killed while it archives, at each point, or fails there. The next one archives what
// is left: each acknowledged saga is then in the archive, its journal is sound, and the database
// and the archive together have all sagas.
func TestArchiveCrashes(t *testing.T) {
	t.Parallel()
	for name, db := range map[string]func(*testing.T) database{"postgres": onPostgres, "sqlite": onSQLite} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program := struck(t)
			for _, point := range archivePoints {
				for _, action := range []string{"kill", "error"} {
					t.Run(point+" "+action, func(t *testing.T) {
						t.Parallel()
						archiveCrash(t, program, db(t), point, action)
					})
				}
			}
		})
	}
}

const archived = `saga: noted
input: {n: integer}
steps: [{id: note, set: {n: "${input.n}"}}]
`

// archiveLease is longer than the lease of the servers.
const archiveLease = 1100 * time.Millisecond

// sagasToArchive is how many sagas a test of the archive starts. They are of one definition.
const sagasToArchive = 8

func archiveCrash(t *testing.T, program string, db database, point, action string) {
	w := &archiving{T: t, program: program, db: db, dir: filepath.Join(t.TempDir(), "archive")}
	starts := w.fill()
	if action == "kill" {
		p := w.serve("RECOURSE_FAILPOINTS=" + point + "=kill")
		if !p.gone(time.Minute) {
			t.Fatalf("%s was not reached: %s", point, &w.log)
		}
		if !strings.Contains(p.ended(), "killed") {
			t.Fatalf("%s: %s", p.ended(), &w.log)
		}
		w.verify(starts)
		<-time.After(archiveLease) // until then, on Postgres, it is the dead node's turn to archive
	}
	p := w.serve(map[string]string{"kill": "X=1", "error": "RECOURSE_FAILPOINTS=" + point + "=error"}[action])
	if action == "error" {
		for deadline := time.Now().Add(time.Minute); !strings.Contains(w.log.String(), "could not archive"); <-time.After(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s was not reached: %s", point, &w.log)
			}
		}
		w.stop(p)
		w.verify(starts)
		p = w.serve("X=1")
	}
	w.emptied()
	w.stop(p)
	out := w.verify(starts)
	if want := fmt.Sprintf("%d sagas in the archive", sagasToArchive); !strings.Contains(out, want) {
		t.Errorf("want %s:\n%s", want, out)
	}
}

// archiving is a database that a server with an archive opens.
type archiving struct {
	*testing.T
	program, dir string
	db           database
	log          safeBuffer
}

// safeBuffer is the log of processes.
type safeBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (w *archiving) serve(env string, args ...string) *process {
	w.Helper()
	args = append([]string{"serve", "--listen", "127.0.0.1:0", "--database", w.db.url, "--archive", w.dir, "--archive-wait", "0s", "--node-lease", "1s"}, args...)
	p, err := spawn(w.program, []string{env}, &w.log, args...)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		p.signal(syscall.SIGKILL)
		<-p.dead
	})
	return p
}

func (w *archiving) stop(p *process) {
	w.Helper()
	p.signal(syscall.SIGTERM)
	if !p.gone(time.Minute) {
		w.Fatal("the server does not stop")
	}
}

// run runs a command and returns what it prints.
func (w *archiving) run(args ...string) string {
	w.Helper()
	out, err := exec.Command(w.program, args...).CombinedOutput()
	if err != nil {
		w.Fatalf("%v: %v\n%s\n%s", args, err, out, &w.log)
	}
	return string(out)
}

// start starts a saga, waits for its end, and returns its id. On a busy machine the node may lose
// its lease of a second meanwhile. The same key then finds the same saga.
func (w *archiving) start(args ...string) string {
	w.Helper()
	args = append([]string{"start"}, args...)
	for try := 1; ; try++ {
		out, err := exec.Command(w.program, args...).CombinedOutput()
		if err == nil {
			return strings.Fields(string(out))[0]
		}
		if try == 5 {
			w.Fatalf("%v: %v\n%s\n%s", args, err, out, &w.log)
		}
	}
}

// fill runs sagas to their end, lets their retention end, and returns a file of their starts.
func (w *archiving) fill() string {
	w.Helper()
	p := w.serve("X=1")
	if !p.listens() {
		w.Fatal("the server does not listen")
	}
	file := filepath.Join(w.TempDir(), "noted.yaml")
	if err := os.WriteFile(file, []byte(archived), 0o600); err != nil {
		w.Fatal(err)
	}
	w.run("definitions", "apply", file, "--server", p.url)
	var starts []string
	for n := range sagasToArchive {
		input := fmt.Sprintf(`{"n":%d}`, n)
		id := w.start("noted", "--server", p.url, "-i", input, "--key", fmt.Sprint(n), "--wait", "10s")
		starts = append(starts, fmt.Sprintf(`{"id":%q,"input":%s}`, id, input))
	}
	w.stop(p)
	driver := "sqlite"
	if strings.Contains(w.db.url, "://") {
		driver = "pgx"
	}
	db, err := sql.Open(driver, w.db.url)
	if err != nil {
		w.Fatal(err)
	}
	defer db.Close()
	if res, err := db.Exec(`UPDATE sagas SET delete_at = 1 WHERE ended_at IS NOT NULL`); err != nil {
		w.Fatal(err)
	} else if n, _ := res.RowsAffected(); n != sagasToArchive {
		w.Fatalf("%d sagas have ended", n)
	}
	file = filepath.Join(w.TempDir(), "starts.json")
	if err := os.WriteFile(file, []byte(strings.Join(starts, "\n")), 0o600); err != nil {
		w.Fatal(err)
	}
	return file
}

// verify checks the database together with the archive, in which there is something already.
func (w *archiving) verify(starts string) string {
	w.Helper()
	return w.run("verify", "--database", w.db.url, "--archive", w.dir, "--starts", starts)
}

// emptied waits until the database has no sagas.
func (w *archiving) emptied() {
	w.Helper()
	s := w.db.open(w.T)
	defer s.Close()
	for deadline := time.Now().Add(time.Minute); ; <-time.After(20 * time.Millisecond) {
		list, err := s.Sagas(w.Context(), journal.Filter{})
		if err != nil {
			w.Fatal(err)
		}
		if len(list.Heads) == 0 {
			return
		}
		if time.Now().After(deadline) {
			w.Fatalf("%d sagas are not archived: %s", len(list.Heads), &w.log)
		}
	}
}

// The points are those in the program.
func TestArchivePoints(t *testing.T) {
	source, err := os.ReadFile("../../archive/move.go")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, part := range strings.Split(string(source), `failpoint.Err("`)[1:] {
		name, _, _ := strings.Cut(part, `"`)
		found = append(found, name)
	}
	if !slices.Equal(found, archivePoints) {
		t.Errorf("the program has the points %v", found)
	}
}
