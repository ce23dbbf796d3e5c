package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"recourse/internal/egress"
	"recourse/internal/httptext"
	"recourse/internal/quota"
	"recourse/saga/kinds/mcp"
)

// stopTime is how long a process may take to end after its stdin was closed.
const stopTime = 2 * time.Second

// inherited are the variables of this process that child processes get: none with a key in it.
var inherited = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "SSL_CERT_FILE", "SSL_CERT_DIR"}

// process is a server that runs as a child process: one message a line, on its stdin and stdout.
// The process ends with this one: its stdin ends, and on Linux the kernel kills it.
type process struct {
	s      *server
	keys   *keys // with which it was started
	speaks string
	cmd    *exec.Cmd
	in     *os.File
	errors *tail // the end of its stderr

	writing chan struct{} // full while a message is written
	exited  chan struct{} // closed when the process has ended
	over    chan struct{} // closed when no further reply will come

	killing sync.Once
	mu      sync.Mutex
	last    int64
	waiting map[int64]chan reply
	leaving bool   // it is closed when no request waits
	why     string // why it is over; "": it is not
	code    string
}

// startProcess starts the server's program and greets it.
func startProcess(ctx context.Context, s *server, k *keys) (link, *failure) {
	p := &process{s: s, keys: k, errors: &tail{redact: k.redact}, writing: make(chan struct{}, 1), exited: make(chan struct{}), over: make(chan struct{}), waiting: make(map[int64]chan reply)}
	if err := p.start(k); err != nil {
		return nil, &failure{code: mcp.CodeNotReady, why: "the program of the server " + s.Name + " cannot be started: " + err.Error()}
	}
	if f := p.greet(ctx, k); f != nil {
		p.close()
		return nil, f
	}
	return p, nil
}

func (p *process) start(k *keys) error {
	// The process outlives the request that starts it.
	p.cmd = exec.CommandContext(context.Background(), p.s.Command, p.s.Args...)
	for _, v := range p.s.cfg.Environ {
		if name, _, _ := strings.Cut(v, "="); slices.Contains(inherited, name) {
			p.cmd.Env = append(p.cmd.Env, v)
		}
	}
	for name, value := range k.values { // any order
		p.cmd.Env = append(p.cmd.Env, name+"="+value)
	}
	p.cmd.Stderr, p.cmd.WaitDelay, p.cmd.SysProcAttr = p.errors, time.Second, attributes()
	stdin, in, err := os.Pipe()
	if err != nil {
		return err
	}
	out, stdout, err := os.Pipe()
	if err != nil {
		_ = stdin.Close()
		_ = in.Close()
		return err
	}
	p.cmd.Stdin, p.cmd.Stdout, p.in = stdin, stdout, in
	started := make(chan error, 1)
	go func() {
		// The kernel kills the child when the thread that started it ends, so the thread stays.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // the end of its stdout says enough
		}
		close(p.exited)
	}()
	err = <-started
	_ = stdin.Close()
	_ = stdout.Close()
	if err != nil {
		_ = in.Close()
		_ = out.Close()
		return err
	}
	go p.read(out)
	return nil
}

// greet begins with the older revision: programs that speak both accept it, and programs that speak
// only the older one need not know server/discover.
func (p *process) greet(ctx context.Context, k *keys) *failure {
	rep, f := p.exchange(ctx, "initialize", p.s.initialize())
	if f != nil {
		return f
	}
	revision, bad := greeted(rep)
	if bad == nil {
		p.speaks = revision
		return p.notify(ctx, "notifications/initialized")
	}
	p.speaks = stateless
	if rep, f = p.request(ctx, "server/discover", map[string]any{}, "", k); f != nil {
		return f
	}
	if !speaksStateless(rep) {
		return bad
	}
	return nil
}

func (p *process) revision() string { return p.speaks }
func (p *process) has(k *keys) bool { return maps.Equal(p.keys.values, k.values) }

func (p *process) usable() bool {
	select {
	case <-p.over:
		return false
	default:
		return true
	}
}

func (p *process) request(ctx context.Context, method string, params map[string]any, _ string, _ *keys) (reply, *failure) {
	if p.speaks == stateless {
		params = p.s.withMeta(params)
	}
	return p.exchange(ctx, method, params)
}

func (p *process) notify(ctx context.Context, method string) *failure {
	text, err := encode(0, method, nil)
	if err != nil {
		return &failure{code: egress.CodeRequestInvalid, why: "the message cannot be encoded"}
	}
	return p.write(ctx, text)
}

// exchange writes a request and waits for the reply.
func (p *process) exchange(ctx context.Context, method string, params map[string]any) (reply, *failure) {
	p.mu.Lock()
	p.last++
	id, answered := p.last, make(chan reply, 1)
	p.waiting[id] = answered
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.waiting, id)
		last := p.leaving && len(p.waiting) == 0
		p.mu.Unlock()
		if last {
			go p.retire() // the reply does not wait for the end of the program
		}
	}()
	text, err := encode(id, method, params)
	if err != nil {
		return reply{}, &failure{code: egress.CodeRequestInvalid, why: "the message cannot be encoded"}
	}
	if f := p.write(ctx, text); f != nil {
		return reply{}, f
	}
	select {
	case rep := <-answered:
		return p.charged(ctx, rep)
	case <-ctx.Done():
		return reply{}, p.late(ctx)
	case <-p.over:
		select {
		case rep := <-answered:
			return p.charged(ctx, rep)
		default:
		}
		return reply{}, p.ended(true)
	}
}

// charged reserves the memory of a reply.
func (p *process) charged(ctx context.Context, rep reply) (reply, *failure) {
	if err := quota.FromContext(ctx).Reserve(ctx, int64(len(rep.result))); err != nil {
		f := egress.BodyFailure(ctx, err)
		return reply{}, &failure{sent: true, code: f.Code, why: f.Why}
	}
	return rep, nil
}

// late returns the failure of a request that may have been sent, and whose ctx is done.
func (p *process) late(ctx context.Context) *failure {
	f := egress.BodyFailure(ctx, ctx.Err())
	return &failure{sent: true, code: f.Code, why: "the program of the server " + p.s.Name + ": " + f.Why}
}

// unread returns the failure of a request of which nothing was written before its ctx was done.
func (p *process) unread() *failure {
	return &failure{code: egress.CodeTimeout, why: "the program of the server " + p.s.Name + " does not read its stdin"}
}

func (p *process) ended(sent bool) *failure {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := &failure{sent: sent, code: p.code, why: "the program of the server " + p.s.Name + " " + p.why}
	if !sent {
		f.code = mcp.CodeNotReady
	}
	if text := p.errors.String(); text != "" {
		f.why += "; it last wrote: " + text
	}
	return f
}

// write writes one line. If ctx ends when a part of it is written, the rest follows in the
// background: without it, the program could read no other line, and the calls that wait there would
// be lost.
func (p *process) write(ctx context.Context, text []byte) *failure {
	select {
	case p.writing <- struct{}{}:
	case <-ctx.Done():
		return p.unread()
	}
	rest, f := p.begin(ctx, append(text, '\n'))
	if rest == nil {
		<-p.writing
		return f
	}
	go func() {
		defer func() { <-p.writing }()
		if _, err := p.in.Write(rest); err != nil { // if the program never reads it, close ends this
			p.broken()
		}
	}()
	return f
}

// begin writes a line until ctx is done. rest is what is left of a line that has begun.
func (p *process) begin(ctx context.Context, line []byte) (rest []byte, _ *failure) {
	if !p.usable() {
		return nil, p.ended(false)
	}
	cut := make(chan struct{})
	late := context.AfterFunc(ctx, func() {
		_ = p.in.SetWriteDeadline(time.Unix(1, 0))
		close(cut)
	})
	n, err := p.in.Write(line)
	if !late() {
		<-cut // otherwise it could cut the next line
		_ = p.in.SetWriteDeadline(time.Time{})
	}
	switch {
	case err == nil:
		return nil, nil
	case !errors.Is(err, os.ErrDeadlineExceeded):
		p.broken()
		return nil, p.ended(n > 0)
	case n == 0:
		return nil, p.unread()
	}
	return line[n:], p.late(ctx)
}

// broken ends a program that no longer reads its stdin.
func (p *process) broken() {
	if p.usable() {
		p.end(egress.CodeConnection, "no longer reads its stdin")
		p.kill()
	}
}

// read passes each line of the program's stdout to the request that it answers, until its end.
func (p *process) read(out *os.File) {
	defer func() { _ = out.Close() }()
	in := bufio.NewReaderSize(out, 64<<10)
	code, why := egress.CodeConnection, "has ended"
	for {
		line, err := readLine(in, p.s.cfg.MaxBody)
		if err != nil {
			if errors.Is(err, errLong) {
				code, why = egress.CodeBodyTooLarge, "has written a message that is larger than the limit"
			}
			break
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			p.receive(line)
		}
	}
	p.end(code, why)
	p.kill()
}

var errLong = errors.New("a line is too long")

func readLine(in *bufio.Reader, most int64) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if line = append(line, part...); int64(len(line)) > most {
			return nil, errLong
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// receive handles one message. Text that is no message is skipped: some programs log to stdout.
func (p *process) receive(line []byte) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if json.Unmarshal(line, &m) != nil {
		return
	}
	if m.Method != "" {
		p.asked(m.Method, m.ID)
		return
	}
	id, err := strconv.ParseInt(string(m.ID), 10, 64)
	if err != nil {
		return
	}
	rep, err := decode(line, id)
	if err != nil {
		return
	}
	rep.status = 200
	p.mu.Lock()
	defer p.mu.Unlock()
	if to := p.waiting[id]; to != nil {
		delete(p.waiting, id)
		to <- rep
	}
}

// asked answers a request of the server: a ping gets an empty result, others an error, because this
// client has no capabilities.
func (p *process) asked(method string, id json.RawMessage) {
	if method == "notifications/tools/list_changed" {
		p.s.outdated()
	}
	if len(id) == 0 {
		return
	}
	m := message{JSONRPC: "2.0", ID: id, Error: &rpcError{Code: -32601, Message: "this client does not know " + method}}
	if method == "ping" {
		m.Error, m.Result = nil, json.RawMessage("{}")
	}
	text, err := json.Marshal(m)
	if err != nil {
		return
	}
	go func() { // the reader must not wait for the program to read
		ctx, cancel := context.WithTimeout(context.Background(), stopTime)
		defer cancel()
		_ = p.write(ctx, text) // a program that does not read it has ended, or asks again
	}()
}

// end says that no further reply will come. Only the first reason counts.
func (p *process) end(code, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endLocked(code, why)
}

func (p *process) endLocked(code, why string) {
	if p.why == "" {
		p.code, p.why = code, why
		close(p.over)
	}
}

// stopped is why a process is over that this program has closed.
const stopped = "was stopped"

func (p *process) retire() bool {
	p.mu.Lock()
	if p.why == "" && len(p.waiting) > 0 {
		p.mu.Unlock()
		return false
	}
	p.endLocked(egress.CodeConnection, stopped) // a request that comes now is not sent
	p.mu.Unlock()
	p.close()
	return true
}

func (p *process) leave() {
	p.mu.Lock()
	p.leaving = true
	p.mu.Unlock()
	p.retire()
}

// close ends the process: its stdin ends, and after a while it is killed, with its children.
func (p *process) close() {
	p.end(egress.CodeConnection, stopped)
	_ = p.in.Close()
	select {
	case <-p.exited:
	case <-time.After(stopTime):
	}
	p.kill()
	<-p.exited
}

// kill ends the process and its children at once. It does so only the first time, because later
// another process may have the number.
func (p *process) kill() { p.killing.Do(func() { killGroup(p.cmd.Process) }) }

// tail keeps the end of what is written to it, in one line, for messages.
type tail struct {
	redact *httptext.Redactor
	mu     sync.Mutex
	text   []byte
}

const (
	maxTail = 300     // bytes that a message has
	kept    = 4 << 10 // bytes before secrets are redacted, which makes them fewer
)

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if cut := len(t.text) - kept; cut > 0 {
		t.text = t.text[cut:]
	}
	return len(b), nil
}

var _ io.Writer = (*tail)(nil)
var _ fmt.Stringer = (*tail)(nil)

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.Join(strings.Fields(strings.ToValidUTF8(t.redact.Part(string(t.text)), "?")), " ")
	return strings.ToValidUTF8(text[max(0, len(text)-maxTail):], "")
}
