package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"recourse/internal/test/pgserver"
)

// If a connection is found dead in the middle of a transaction, the error has an SQLSTATE, as if it
// was found dead before.
func TestConnectionDiesWithinATransaction(t *testing.T) {
	s, err := Open(t.Context(), pgserver.DSN(t), Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	err = s.rest.tx(t.Context(), func(tx session) error {
		if err := tx.querier.(pgx.Tx).Conn().Close(context.Background()); err != nil {
			return err
		}
		_, err := tx.Exec(t.Context(), `SELECT 1`)
		return err
	})
	var state interface{ SQLState() string }
	if !errors.As(err, &state) || !strings.HasPrefix(state.SQLState(), "08") {
		t.Errorf("got %v, want an error of class 08, connection exception", err)
	}
}
