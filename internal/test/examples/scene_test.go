package examples

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"recourse/api/client"
	"recourse/examples/llmstub"
	"recourse/examples/world"
	"recourse/internal/test/pgserver"
	"recourse/internal/test/program"
)

const (
	payKey   = "canary-of-the-key-to-pay"
	modelKey = "canary-of-the-models-key"
)

// databases are the databases on which every play runs.
var databases = map[string]func(*testing.T) string{
	"sqlite":   func(t *testing.T) string { return filepath.Join(t.TempDir(), "recourse.db") },
	"postgres": func(t *testing.T) string { return pgserver.DSN(t) },
}

// prices are those of the models that the examples use, in USD per million tokens of input and
// output.
var prices = map[string][2]string{
	"gpt-5-mini": {"0.25", "2.00"}, "claude-haiku-4-5": {"1.00", "5.00"}, "claude-sonnet-5": {"3.00", "15.00"}, "gpt-5": {"1.25", "10.00"},
}

// scene is a server and the services that it uses.
type scene struct {
	t        *testing.T
	dir      string
	database string
	world    *world.Server
	front    string // address of the mock services with TLS
	model    *llmstub.Server
	events   *sink
	client   *client.Client
	config   string
	log      *os.File

	mu     sync.Mutex
	server *process
}

// stage starts a scene. fault returns the model's faults; nil for none.
func stage(t *testing.T, database string, fault func(llmstub.Call) llmstub.Fault) *scene {
	t.Helper()
	return stageModel(t, database, llmstub.Config{Fault: fault})
}

// stageModel starts a scene with a model of this configuration, whose key is modelKey.
func stageModel(t *testing.T, database string, model llmstub.Config) *scene {
	t.Helper()
	model.APIKey = modelKey
	s := &scene{t: t, dir: t.TempDir(), database: database, events: newSink(t)}
	var err error
	if s.world, err = world.New(world.Config{}).Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.world.Close() })
	if s.model, err = llmstub.New(model).Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.model.Close() })
	ca, front := serveTLS(t, s.world.World, "pay.example", "ship.example")
	s.front = front
	s.file("ca.pem", ca+s.events.authority)
	s.config = s.file("recourse.yaml", s.settings())
	if s.log, err = os.Create(filepath.Join(s.dir, "serve.log")); err != nil {
		t.Fatal(err)
	}
	s.client = client.New("http://127.0.0.1", "")
	s.client.HTTP.Transport = &http.Transport{MaxIdleConnsPerHost: 20, DialContext: s.dial}
	s.start()
	t.Cleanup(s.end)
	return s
}

// settings returns the config file.
func (s *scene) settings() string {
	var b strings.Builder
	fmt.Fprintf(&b, "llm:\n  providers: [{name: stub, base_url: %q, api_key: %[2]s}, {name: messages, api: anthropic, base_url: %[3]q, api_key: %[2]s}]\n  currency: USD\n  prices:\n",
		s.model.URL+"/v1", modelKey, s.model.URL)
	for name, p := range prices {
		fmt.Fprintf(&b, "    %s: {input: %s, output: %s}\n", name, p[0], p[1])
	}
	b.WriteString("sinks: [{name: events, url: https://events.example/}]\n")
	return b.String()
}

// file writes a file and returns its path.
func (s *scene) file(name, content string) string {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// start starts the server on the existing database.
func (s *scene) start() {
	s.t.Helper()
	s.listen("127.0.0.1:0")
}

// restart kills the server, and starts it at the same address, which other processes know.
func (s *scene) restart() {
	s.t.Helper()
	addr := s.server.addr
	s.kill()
	s.listen(addr)
}

func (s *scene) listen(addr string) {
	s.t.Helper()
	path := program.Path(s.t)
	env := []string{"RECOURSE_SECRET_PAY_KEY=" + payKey}
	for _, name := range []string{"air", "hotels", "pay", "orders", "stock", "shipping", "mail", "search", "cms"} {
		env = append(env, "RECOURSE_VAR_"+name+"="+s.world.URL+"/"+name)
	}
	p, err := launch(path, env, s.log, "serve", "--database", s.database, "--listen", addr, "--config", s.config, "--while-stdin",
		"--egress-allow", "127.0.0.1", "--ca-file", filepath.Join(s.dir, "ca.pem"), "--resolve", "pay.example:443="+s.front, "--resolve", "ship.example:443="+s.front,
		"--resolve", "events.example:443="+s.events.addr,
		"--node-lease", "1s", "--log-level", "warn")
	if err != nil {
		s.t.Fatalf("%v\n%s", err, s.logged())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server = p
}

// kill kills the server.
func (s *scene) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server.kill()
}

func (s *scene) end() {
	s.kill()
	if s.t.Failed() {
		s.t.Logf("the server logged:\n%s", s.logged())
	}
	_ = s.log.Close()
}

func (s *scene) logged() string {
	b, err := os.ReadFile(s.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// dial connects to the current address of the server.
func (s *scene) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	s.mu.Lock()
	addr := s.server.addr
	s.mu.Unlock()
	return new(net.Dialer).DialContext(ctx, network, addr)
}

// call sends a request to the API. Without a response the status is 0.
func (s *scene) call(method, path, body string, header ...string) (status int, etag string, answer []byte) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, "http://127.0.0.1"+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := s.client.HTTP.Do(req)
	if err != nil {
		return 0, "", nil
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(resp.Body); err != nil {
		return 0, "", nil
	}
	return resp.StatusCode, resp.Header.Get("ETag"), b.Bytes()
}

// get reads JSON, and fails if the request does.
func (s *scene) get(path string, into any) (etag string) {
	s.t.Helper()
	status, etag, b := s.call("GET", path, "")
	if status != http.StatusOK {
		s.t.Fatalf("GET %s: %d %s", path, status, b)
	}
	if err := json.Unmarshal(b, into); err != nil {
		s.t.Fatal(err)
	}
	return etag
}

// publish publishes an example. edit has pairs of texts to replace: old, new.
func (s *scene) publish(name string, edit ...string) {
	s.t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "examples", name+".yaml"))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i+1 < len(edit); i += 2 {
		if !strings.Contains(string(b), edit[i]) {
			s.t.Fatalf("%s.yaml has no %q", name, edit[i])
		}
		b = bytes.ReplaceAll(b, []byte(edit[i]), []byte(edit[i+1]))
	}
	if out, code := s.command("definitions", "apply", s.file(filepath.Base(name)+".yaml", string(b)), "--server", "http://"+s.server.addr); code != 0 {
		s.t.Fatalf("apply %s: %s", name, out)
	}
}

// command runs a command of the program.
func (s *scene) command(args ...string) (out string, code int) {
	s.t.Helper()
	path := program.Path(s.t)
	cmd := exec.Command(path, args...)
	b, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		s.t.Fatal(err)
	}
	return string(b), cmd.ProcessState.ExitCode()
}

// verify compares journals, rows and a ledger.
func (s *scene) verify(l world.Ledger) (out string, ok bool) {
	s.t.Helper()
	var lines bytes.Buffer
	for _, e := range l {
		b, err := json.Marshal(e)
		if err != nil {
			s.t.Fatal(err)
		}
		lines.Write(append(b, '\n'))
	}
	// Times in journals are whole milliseconds, and the ledger must be later than the last one.
	<-time.After(5 * time.Millisecond)
	out, code := s.command("verify", "--database", s.database, "--ledger", s.file("ledger.ndjson", lines.String()), "--complete", "--keyless", "mail",
		"--ledger-of", s.world.URL+"/", "--ledger-of", "https://pay.example/", "--ledger-of", "https://ship.example/",
		"--canaries", s.file("canaries", payKey+"\n"+modelKey+"\n"))
	return out, code == 0
}

// transcript returns a saga's journal as text.
func (s *scene) transcript(id string) string {
	_, _, b := s.call("GET", "/v1/sagas/"+id+"/journal", "", "Accept", "application/x-ndjson")
	return string(b)
}
