package world

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxWait is the maximum wait of GET /_ledger.
const maxWait = time.Minute

// control adds the control paths.
func (w *World) control() {
	w.mux.HandleFunc("GET /_healthz", func(rw http.ResponseWriter, _ *http.Request) {
		reply(http.StatusOK, map[string]string{"status": "ok"}).send(rw)
	})
	routes := map[string]func(*http.Request) answer{
		"GET /_ledger":    w.getLedger,
		"GET /_balance":   func(*http.Request) answer { return reply(http.StatusOK, w.Balance()) },
		"GET /_faults":    func(*http.Request) answer { return reply(http.StatusOK, w.Faults()) },
		"POST /_faults":   w.postFault,
		"DELETE /_faults": func(*http.Request) answer { w.ClearFaults(); return done() },
		"POST /_auth":     w.postAuth,
		"POST /_reset":    func(*http.Request) answer { w.Reset(); return done() },
	}
	for pattern, handle := range routes {
		w.mux.HandleFunc(pattern, func(rw http.ResponseWriter, r *http.Request) {
			if !fromHere(r) {
				problem(http.StatusForbidden, "not from here", "control paths accept only loopback clients").send(rw)
				return
			}
			handle(r).send(rw)
		})
	}
}

func done() answer { return reply(http.StatusOK, map[string]bool{"done": true}) }

// fromHere reports whether the client has a loopback address.
func fromHere(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	ip := net.ParseIP(host)
	return err == nil && ip != nil && ip.IsLoopback()
}

// getLedger returns the entries with n > after. With wait it waits for the first one, for at most
// that time.
func (w *World) getLedger(r *http.Request) answer {
	after, wait := int64(0), time.Duration(0)
	var err error
	if v := r.URL.Query().Get("after"); v != "" {
		if after, err = strconv.ParseInt(v, 10, 64); err != nil {
			return problem(http.StatusBadRequest, "bad after", "after is the n of an entry, such as 12")
		}
	}
	if v := r.URL.Query().Get("wait"); v != "" {
		if wait, err = time.ParseDuration(v); err != nil || wait < 0 || wait > maxWait {
			return problem(http.StatusBadRequest, "bad wait", "wait is a duration up to "+maxWait.String()+", such as 10s")
		}
	}
	l := w.ledgerAfter(r.Context(), after, wait)
	return reply(http.StatusOK, append(Ledger{}, l...)) // [], not null
}

func (w *World) ledgerAfter(ctx context.Context, after int64, wait time.Duration) Ledger {
	newer := func(e Entry) bool { return e.N > after }
	if wait == 0 {
		return w.Ledger().Where(newer)
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	defer context.AfterFunc(w.open, cancel)()
	// A timeout is no error: the response is the present list.
	l, _ := w.Await(ctx, func(l Ledger) bool { return len(l) > 0 && l[len(l)-1].N > after })
	return l.Where(newer)
}

func (w *World) postFault(r *http.Request) answer {
	var rule Rule
	if err := strictly(r, &rule); err != nil {
		return problem(http.StatusBadRequest, "bad fault rule", err.Error())
	}
	if err := w.AddFault(rule); err != nil {
		return problem(http.StatusBadRequest, "bad fault rule", err.Error())
	}
	return reply(http.StatusCreated, rule)
}

func (w *World) postAuth(r *http.Request) answer {
	var to struct {
		Service string `json:"service"`
		Token   string `json:"token"`
	}
	if err := strictly(r, &to); err != nil {
		return problem(http.StatusBadRequest, "bad token", err.Error())
	}
	if !slices.Contains(serviceNames, to.Service) {
		return problem(http.StatusBadRequest, "no such service", "service must be one of "+strings.Join(serviceNames, ", "))
	}
	w.SetToken(to.Service, to.Token)
	return done()
}

// strictly decodes the body; unknown fields are errors.
func strictly(r *http.Request, v any) error {
	d := json.NewDecoder(http.MaxBytesReader(nil, r.Body, mib))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("send one JSON object with known fields: %w", err)
	}
	return nil
}
