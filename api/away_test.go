package api

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"

	"recourse/journal"
)

// state is a database error with an SQLSTATE, as drivers return it.
type state string

func (s state) Error() string    { return "ERROR " + string(s) }
func (s state) SQLState() string { return string(s) }

// An unreachable database is not an internal error: the response is 503 with Retry-After.
func TestStoreAway(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	for _, tt := range []struct {
		err  error
		want int
	}{
		{fmt.Errorf("saga by key: %w", refused), http.StatusServiceUnavailable},
		{fmt.Errorf("records: %w", io.ErrUnexpectedEOF), http.StatusServiceUnavailable},
		{fmt.Errorf("post: %w", journal.ErrUnknown), http.StatusServiceUnavailable},
		{fmt.Errorf("sagas: %w", state("57P01")), http.StatusServiceUnavailable},
		{fmt.Errorf("sagas: %w", state("57P03")), http.StatusServiceUnavailable},
		{fmt.Errorf("sagas: %w", state("53300")), http.StatusServiceUnavailable},
		{fmt.Errorf("sagas: %w", state("42P01")), http.StatusInternalServerError},
		{errors.New("a bug"), http.StatusInternalServerError},
	} {
		p := asProblem(tt.err)
		if p.Status != tt.want || (tt.want == http.StatusServiceUnavailable) != (p.retryAfter > 0) {
			t.Errorf("%v: status %d, Retry-After %d; want %d", tt.err, p.Status, p.retryAfter, tt.want)
		}
	}
}
