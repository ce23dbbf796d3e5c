package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"recourse/examples/llmstub"
	"recourse/examples/world"
	"recourse/internal/cli"
	"recourse/internal/test/debian"
	"recourse/internal/test/promtool"
	"recourse/saga"
)

const (
	rules      = "../../deploy/prometheus/"
	dashboards = "../../deploy/grafana/"
)

// rule is the tested part of a Prometheus rule.
type rule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func readRules(t *testing.T, name string) (list []rule) {
	t.Helper()
	var doc struct {
		Groups []struct {
			Rules []rule `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.Load(read(t, rules+name), &doc); err != nil {
		t.Fatal(err)
	}
	for _, g := range doc.Groups {
		list = append(list, g.Rules...)
	}
	if len(list) == 0 {
		t.Fatalf("%s has no rules", name)
	}
	return list
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// promtool accepts the rules, the configuration that names them, and the alerts' own tests.
func TestRules(t *testing.T) {
	t.Parallel()
	promtool.Run(t, rules, nil, "check", "rules", "alerts.yaml", "recording.yaml")
	promtool.Run(t, rules, nil, "test", "rules", "alerts_test.yaml")
	dir := t.TempDir() // with a key file that the configuration names
	config := string(read(t, rules+"prometheus.yaml"))
	key := regexp.MustCompile(`credentials_file: \S+`)
	if !key.MatchString(config) {
		t.Error("the example has no key")
	}
	for name, content := range map[string]string{"alerts.yaml": string(read(t, rules+"alerts.yaml")), "recording.yaml": string(read(t, rules+"recording.yaml")),
		"key": "rk_x", "prometheus.yaml": key.ReplaceAllString(config, "credentials_file: key")} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out := promtool.Run(t, dir, nil, "check", "config", "prometheus.yaml"); !strings.Contains(out, "2 rule files found") {
		t.Errorf("check config: %s", out)
	}
}

// Every alert says what to do, in its annotation and in the manual, and has a test in which it
// fires.
func TestAlertsAreExplained(t *testing.T) {
	t.Parallel()
	manual := strings.ToLower(string(read(t, "../../docs/operating.md")))
	tests := string(read(t, rules+"alerts_test.yaml"))
	alerts := readRules(t, "alerts.yaml")
	for _, a := range alerts {
		if a.For == "" || !slices.Contains([]string{"critical", "warning"}, a.Labels["severity"]) || a.Annotations["summary"] == "" || len(a.Annotations["description"]) < 50 {
			t.Errorf("%s: an alert has for, a severity, a summary and a description: %+v", a.Alert, a)
		}
		if want := "docs/operating.md#" + strings.ToLower(a.Alert); a.Annotations["runbook_url"] != want || !strings.Contains(manual, "\n### "+strings.ToLower(a.Alert)+"\n") {
			t.Errorf("%s: runbook_url is %q, want %q, and that heading", a.Alert, a.Annotations["runbook_url"], want)
		}
		if !strings.Contains(tests, `exp_samples: [{labels: '{alertname="`+a.Alert+`"`) {
			t.Errorf("%s: no test sees it fire", a.Alert)
		}
	}
	for _, kind := range saga.InboxKinds { // what waits for a person does not wait unnoticed
		if !slices.ContainsFunc(alerts, func(a rule) bool { return strings.Contains(a.Expr, `{kind="`+kind+`"}`) }) {
			t.Errorf("no alert is about inbox entries of the kind %s", kind)
		}
	}
	if n := strings.Count(manual, "\n### recourse"); n != len(alerts) {
		t.Errorf("the manual explains %d alerts, and there are %d", n, len(alerts))
	}
}

// panel is the tested part of a dashboard's panel.
type panel struct {
	ID      int
	Title   string
	Type    string
	GridPos struct{ X, Y, W, H int }
	Targets []struct {
		Expr       string
		Datasource struct{ UID string }
	}
}

func readDashboard(t *testing.T) (list []panel) {
	t.Helper()
	var doc struct {
		Panels     []panel
		Templating struct {
			List []struct{ Name string }
		}
	}
	if err := json.Unmarshal(read(t, dashboards+"recourse.json"), &doc); err != nil {
		t.Fatal(err)
	}
	var variables []string
	for _, v := range doc.Templating.List {
		variables = append(variables, v.Name)
	}
	if got := strings.Join(variables, " "); got != "datasource job definition" {
		t.Errorf("variables: %s", got)
	}
	return doc.Panels
}

// Prometheus can parse the panels' queries, and panels do not overlap.
func TestDashboard(t *testing.T) {
	t.Parallel()
	var list strings.Builder
	list.WriteString("groups:\n- name: panels\n  rules:\n")
	seen := make(map[int]bool)
	cells := make(map[[2]int]string)
	for _, p := range readDashboard(t) {
		if seen[p.ID] || p.Title == "" {
			t.Errorf("panel %d %q: ids are unique, and there is a title", p.ID, p.Title)
		}
		seen[p.ID] = true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				cell := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if other := cells[cell]; other != "" || cell[0] >= 24 {
					t.Fatalf("%q lies over %q, or beyond the edge", p.Title, other)
				}
				cells[cell] = p.Title
			}
		}
		for i, target := range p.Targets {
			if target.Datasource.UID != "${datasource}" {
				t.Errorf("%s asks %q", p.Title, target.Datasource.UID)
			}
			expr, err := json.Marshal(strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h").Replace(target.Expr))
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&list, "  - {record: 'panel:%d:%d', expr: %s}\n", p.ID, i, expr)
		}
	}
	promtool.Run(t, ".", nil, "check", "rules", file(t, "panels.yaml", list.String()))
}

// sightings are definitions whose sagas together set every metric.
var sightings = map[string]string{
	"done":  "saga: done\nbudget: 1 EUR\nsteps:\n  - {id: a, http: 'POST ${vars.air}/bookings', body: {route: x}, cost: 0.10 EUR}\n",
	"back":  "saga: back\nsteps:\n  - {id: a, http: 'POST ${vars.air}/bookings', body: {route: x}, compensate: {http: 'DELETE ${vars.air}/bookings/${output.id}'}}\n  - {id: b, fail: no}\n",
	"again": "saga: again\nbudget: 1 EUR\nsteps:\n  - {id: a, http: 'POST ${vars.air}/nowhere', cost: 0.10 EUR, retry: {attempts: 2, initial: 1ms, on: [404]}}\n",
	"doubt": "saga: doubt\nsteps:\n  - {id: a, http: 'POST ${vars.hotels}/reservations', body: {city: x}, in_doubt: ask}\n",
	"chat":  "saga: chat\nsteps:\n  - {id: a, llm: {model: small, prompt: Say something}}\n",
	"tells": "saga: tells\nsteps:\n  - {id: a, emit: com.shop.sold}\n",
	"asks":  "saga: asks\nsteps:\n  - {id: a, task: render}\n",
}

// unheard loses the next response of a hotel.
var unheard = world.Rule{Match: world.Match{PathPrefix: "/hotels"}, Times: 1, Do: world.Do{After: world.FaultDrop}}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// scrape lets a server run sagas with many outcomes and returns its /metrics, in Prometheus' own
// format and as OpenMetrics.
func scrape(t *testing.T) (text, open string) {
	t.Helper()
	w, vars := worldFor(t)
	must(t, w.AddFault(unheard))
	sink := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(sink.Close)
	models, err := llmstub.New(llmstub.Config{}).Listen("127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { models.Close() })
	config := file(t, "c.yaml", fmt.Sprintf("sinks:\n  - {name: up, url: %s}\n  - {name: down, url: 'http://127.0.0.1:1/'}\nllm:\n  currency: EUR\n  providers: [{name: stub, base_url: %s/v1}]\n  prices: {small: {input: 1, output: 2}}\n",
		sink.URL, models.URL))
	s := serve(t, vars, "--database", filepath.Join(t.TempDir(), "a.db"), "--config", config, "--archive", filepath.Join(t.TempDir(), "archive"))
	start := func(name string, until saga.Status) string {
		ok(t, s.env, "definitions", "apply", file(t, name+".yaml", sightings[name]))
		id := strings.Fields(ok(t, s.env, "start", name))[0]
		waitFor(t, s, id, until)
		return id
	}
	start("done", saga.Succeeded)
	start("back", saga.Compensated)
	start("again", saga.Compensated)
	start("chat", saga.Succeeded)
	start("tells", saga.Succeeded)
	start("asks", saga.Waiting)
	ok(t, s.env, "definitions", "apply", agentActions)
	token := filepath.Join(t.TempDir(), "token")
	agent := startAgent(t, s.env, waits(token, "exit 0"))
	s.in(t, tokenIn(t, token), "POST", "calls", refundOf("o-1", 1910), nil)
	let(t, token)
	agent.exits(t, cli.OK, "committed")
	settled := start("doubt", saga.Stuck)
	ok(t, s.env, "resolve", settled, "a", "--outcome", "succeeded", "--set-output", "{}", "--reason", "looked")
	waitFor(t, s, settled, saga.Succeeded)
	must(t, w.AddFault(unheard))
	start("doubt", saga.Stuck)
	deadline, tick := time.After(time.Minute), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for {
		text = scraped(t, s.url, "text/plain")
		// Events are delivered asynchronously.
		if strings.Contains(text, `recourse_outbox_delivery_seconds_count{sink="up"} 1`) && strings.Contains(text, `recourse_outbox_events{sink="down"} 1`) {
			return text, scraped(t, s.url, "application/openmetrics-text")
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("the event does not go out:\n%s", text)
		}
	}
}

func scraped(t *testing.T, url, format string) string {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url+"/metrics", nil)
	must(t, err)
	req.Header.Set("Accept", format)
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	return string(body)
}

// A server has every metric that a rule or a panel uses, and the manual names exactly these.
func TestMetricsAreThere(t *testing.T) {
	t.Parallel()
	text, open := scrape(t)
	promtool.Run(t, ".", []byte(text), "check", "metrics")
	once := make(map[string]bool) // OpenMetrics names counters without _total, and no other metric may have that name
	for line := range strings.Lines(open) {
		if name, ok := strings.CutPrefix(line, "# TYPE recourse_"); ok {
			name = strings.Fields(name)[0]
			if once[name] {
				t.Errorf("two metrics are called recourse_%s in OpenMetrics", name)
			}
			once[name] = true
		}
	}
	if len(once) == 0 {
		t.Errorf("no OpenMetrics:\n%s", open)
	}
	exposed := make(map[string]bool)
	families := make(map[string]bool)
	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
			families[strings.Fields(name)[0]] = true
		} else if !strings.HasPrefix(line, "#") {
			exposed[line[:strings.IndexAny(line, "{ ")]] = true
		}
	}
	asked := make(map[string][]string)
	for _, name := range []string{"alerts.yaml", "recording.yaml"} {
		for _, r := range readRules(t, name) {
			for _, m := range metric.FindAllString(r.Expr, -1) {
				asked[m] = append(asked[m], r.Alert)
			}
		}
	}
	for _, p := range readDashboard(t) {
		for _, target := range p.Targets {
			for _, m := range metric.FindAllString(target.Expr, -1) {
				asked[m] = append(asked[m], p.Title)
			}
		}
	}
	for m, by := range asked {
		if !exposed[m] {
			t.Errorf("%s, which %s asks for, is not there", m, strings.Join(by, ", "))
		}
	}
	manual := make(map[string]bool)
	for _, m := range regexp.MustCompile("`(recourse_[a-z_]+)`").FindAllStringSubmatch(string(read(t, "../../docs/operating.md")), -1) {
		manual[m[1]] = true
		if !families[m[1]] {
			t.Errorf("docs/operating.md names %s, which is not there", m[1])
		}
	}
	for name := range families {
		if strings.HasPrefix(name, "recourse_") && !manual[name] {
			t.Errorf("docs/operating.md does not name %s", name)
		}
	}
}

var metric = regexp.MustCompile(`\b(recourse|process)_[a-z_]+`)

// systemd accepts the service unit, and the program accepts its command line.
func TestServiceUnit(t *testing.T) {
	t.Parallel()
	unit := string(read(t, "../../deploy/systemd/recourse.service"))
	const program = "ExecStart=/usr/local/bin/recourse"
	_, command, ok := strings.Cut(unit, program+" ")
	if !ok {
		t.Fatalf("no %s", program)
	}
	command, _, _ = strings.Cut(command, "\n")
	kept := t.TempDir()
	command = strings.ReplaceAll(command, "${STATE_DIRECTORY}", kept)
	s := serve(t, nil, append(strings.Fields(command)[1:], "--database", filepath.Join(t.TempDir(), "a.db"))...)
	if code := s.stop(); code != cli.OK {
		t.Errorf("%s: exit %d:\n%s", command, code, s.log)
	}
	keepsState(t, kept)
	if said := verifyUnit(t, strings.Replace(unit, program, "ExecStart=/bin/true", 1)); said != "" {
		t.Errorf("systemd-analyze verify: %s", said)
	}
	if said := verifyUnit(t, strings.Replace(unit, "StateDirectory=", "StateDirektory=", 1)); !strings.Contains(said, "StateDirektory") {
		t.Errorf("systemd-analyze verify does not notice a key that there is not: %q", said)
	}
}

// The command of the image works, and keeps the node's state in the image's volume.
func TestContainerCommand(t *testing.T) {
	t.Parallel()
	const volume = "/var/lib/recourse"
	set := make(map[string]string)
	for line := range strings.Lines(string(read(t, "../../deploy/Containerfile"))) {
		instruction, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		set[instruction] = rest
	}
	if set["VOLUME"] != volume || set["WORKDIR"] != volume {
		t.Errorf("the volume is %s, and the working directory %s", set["VOLUME"], set["WORKDIR"])
	}
	kept := t.TempDir()
	var args []string
	must(t, json.Unmarshal([]byte(strings.ReplaceAll(set["CMD"], volume, kept)), &args))
	if len(args) == 0 || args[0] != "serve" {
		t.Fatalf("the command is %q", args)
	}
	// The port of the image may be taken on this machine, and an open address needs a key.
	s := serve(t, nil, append(args[1:], "--listen", "127.0.0.1:0", "--database", filepath.Join(t.TempDir(), "a.db"))...)
	if code := s.stop(); code != cli.OK {
		t.Errorf("%q: exit %d:\n%s", args, code, s.log)
	}
	keepsState(t, kept)
}

// keepsState fails unless a server has kept its node's state in a directory, so that the node that
// is started next takes over at once from one that was killed.
func keepsState(t *testing.T, dir string) {
	t.Helper()
	if files, err := os.ReadDir(filepath.Join(dir, "node")); err != nil || len(files) == 0 {
		t.Errorf("the node's state: %v, %v", files, err)
	}
}

// dies is set in the environment of a process that is to panic.
const dies = "RECOURSE_TEST_DIES"

// The service unit restarts a program of Go that panics, whose exit code would be that of a wrong
// flag, and not one with a wrong flag.
func TestServiceUnitRestartsAfterAPanic(t *testing.T) {
	if os.Getenv(dies) != "" {
		go panic("on purpose")
		select {} // the process ends by the panic, and not by the test
	}
	t.Parallel()
	unit := string(read(t, "../../deploy/systemd/recourse.service"))
	set := unitValues(unit)
	env := append(slices.Clone(set["Environment"]), dies+"=1")
	prevented := slices.Collect(strings.FieldsSeq(strings.Join(set["RestartPreventExitStatus"], " ")))
	self, err := os.Executable()
	must(t, err)
	ends := func(env []string) string {
		cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestServiceUnitRestartsAfterAPanic$")
		cmd.Env, cmd.Dir = env, t.TempDir()
		out, err := cmd.CombinedOutput()
		if failed := (*exec.ExitError)(nil); !errors.As(err, &failed) || !strings.Contains(string(out), "on purpose") {
			t.Fatalf("the process does not panic: %v\n%s", err, out)
		}
		return strconv.Itoa(cmd.ProcessState.ExitCode()) // -1: by a signal
	}
	if code := ends([]string{dies + "=1"}); code != strconv.Itoa(cli.Usage) {
		t.Errorf("without the environment of the unit, a panic ends with %s", code)
	}
	if code := ends(env); slices.Contains(prevented, code) {
		t.Errorf("a panic ends with %s, after which the unit does not restart the program", code)
	}
	if !slices.Contains(prevented, strconv.Itoa(cli.Usage)) {
		t.Errorf("a wrong flag has the unit restart the program without end")
	}
	if got := set["Restart"]; !slices.Equal(got, []string{"on-failure"}) {
		t.Errorf("Restart=%s", got)
	}
	// A dump of the memory would bring secrets to the disk.
	if got := set["LimitCORE"]; !slices.Equal(got, []string{"0"}) {
		t.Errorf("LimitCORE=%s", got)
	}
}

// unitValues returns the values of each key of a service unit.
func unitValues(unit string) map[string][]string {
	set := make(map[string][]string)
	for line := range strings.Lines(unit) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(name, "#") {
			set[name] = append(set[name], value)
		}
	}
	return set
}

// verifyUnit returns the complaints of systemd-analyze about a service unit.
func verifyUnit(t *testing.T, unit string) string {
	t.Helper()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		if err := debian.Install("systemd"); err != nil {
			t.Fatalf("no systemd-analyze found: install systemd: %v", err)
		}
	}
	path := filepath.Join(t.TempDir(), "recourse.service")
	if err := os.WriteFile(path, []byte(unit), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("systemd-analyze", "verify", path).CombinedOutput()
	if err != nil && len(out) == 0 {
		t.Fatalf("systemd-analyze verify: %v", err)
	}
	return string(out)
}
