package saga

import (
	"errors"
	"fmt"
)

// Errors of starts, of definitions and of journals, shared by the packages that start sagas, run
// them, read them and store definitions.
var (
	// ErrBusy says that the node runs as many sagas as it may. Nothing was written.
	ErrBusy = errors.New("the node is at its limit of running sagas")
	// ErrUnavailable says that the start could not be made durable. The same start may be repeated
	// with the same key.
	ErrUnavailable = errors.New("the database does not take writes")
	// ErrStopping says that the node no longer takes starts and that nothing was written. Another
	// node may take the start. It wraps ErrUnavailable.
	ErrStopping = fmt.Errorf("the node is stopping: %w", ErrUnavailable)
	// ErrUnusable says that this program cannot use a definition that another program has
	// published. It does not touch the definition's sagas.
	ErrUnusable = errors.New("this program cannot use the definition")
	// ErrUnreadable says that this program does not know the kind of a journal's record, or cannot
	// read its data.
	ErrUnreadable = errors.New("record cannot be read")
)
