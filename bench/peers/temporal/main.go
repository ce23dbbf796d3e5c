// Command temporal runs booking3 on Temporal (https://docs.temporal.io): a saga is a workflow whose
// three requests are activities. The Temporal server, which stores everything in Postgres, and the
// worker are in this one process, and talk gRPC on the loopback interface.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

const queue = "booking3"

// Booking is the workflow.
func Booking(ctx workflow.Context, trip string) error {
	// The server tries an activity again when no result arrived in this time. All of them take
	// milliseconds.
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: 10 * time.Second})
	for _, s := range []struct{ name, item string }{{"flight", "seat"}, {"hotel", "room"}, {"car", "car"}} {
		if err := workflow.ExecuteActivity(ctx, Book, s.name, s.item, trip).Get(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

var web = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1024}}

// Book is the activity.
func Book(ctx context.Context, name, item, trip string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, os.Getenv("STUB_URL")+"/do/"+name, strings.NewReader(fmt.Sprintf(`{"trip":%q,"item":%q}`, trip, item)))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", activity.GetInfo(ctx).WorkflowExecution.ID+"-"+name)
	resp, err := web.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		return "", fmt.Errorf("%s: status %d", name, resp.StatusCode)
	}
	var effect struct{ ID string }
	return effect.ID, json.NewDecoder(resp.Body).Decode(&effect)
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	server, frontend, err := newServer()
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return err
	}
	options := client.Options{HostPort: frontend, Namespace: queue, Logger: sdklog.NewStructuredLogger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))}
	c, err := register(ctx, options)
	if err != nil {
		return err
	}
	// More pollers than the default of 2, as many as the server advises:
	// https://docs.temporal.io/develop/worker-performance
	pollers := worker.NewPollerBehaviorAutoscaling(worker.PollerBehaviorAutoscalingOptions{})
	w := worker.New(c, queue, worker.Options{ActivityTaskPollerBehavior: pollers, WorkflowTaskPollerBehavior: pollers})
	w.RegisterWorkflow(Booking)
	w.RegisterActivity(Book)
	if err := w.Start(); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		w.Stop()
		c.Close()
		_ = server.Stop()
		os.Exit(0)
	}()
	return serve(c)
}

func serve(c client.Client) error {
	start := func(r *http.Request) (client.WorkflowRun, error) {
		var body struct{ Input struct{ Trip string } }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			return nil, err
		}
		return c.ExecuteWorkflow(r.Context(), client.StartWorkflowOptions{ID: r.Header.Get("Idempotency-Key"), TaskQueue: queue}, Booking, body.Input.Trip)
	}
	fail := func(w http.ResponseWriter, err error) { http.Error(w, err.Error(), http.StatusInternalServerError) }
	http.HandleFunc("POST /run", func(w http.ResponseWriter, r *http.Request) {
		run, err := start(r)
		if err == nil {
			err = run.Get(r.Context(), nil)
		}
		if err != nil {
			fail(w, err)
			return
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"id":%q,"status":"succeeded"}`, run.GetID())
	})
	http.HandleFunc("POST /send", func(w http.ResponseWriter, r *http.Request) {
		run, err := start(r)
		if err != nil {
			fail(w, err)
			return
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"id":%q}`, run.GetID())
	})
	// The list of open workflows lags behind by up to a second.
	http.HandleFunc("GET /live", func(w http.ResponseWriter, r *http.Request) {
		count, err := running(r.Context(), c)
		if err != nil {
			fail(w, err)
			return
		}
		fmt.Fprint(w, count)
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf(`{"run":"%[1]s/run","send":"%[1]s/send","live":"%[1]s/live"}`+"\n", "http://"+l.Addr().String())
	return http.Serve(l, nil)
}

func running(ctx context.Context, c client.Client) (int64, error) {
	resp, err := c.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Namespace: queue, Query: `ExecutionStatus = "Running"`})
	return resp.GetCount(), err
}
