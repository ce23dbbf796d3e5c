package ui

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"recourse/api/rest"
	"recourse/api/ui/format"
	"recourse/saga"
	"recourse/saga/machine"
)

// action is a command that the user may give to a saga now, with its consequences.
type action struct {
	Do       string // the command's name in the form's path
	Noun     string // saga or session
	Title    string // of the closed form
	Then     []string
	Undo     []string // steps that would be undone, in this order
	Left     []string // effects that would remain
	InFlight []string // attempts whose responses the saga awaits first
	Danger   bool
	Modes    bool           // cancel: undo, or leave
	Signals  []string       // names of signals that the saga accepts
	From     []string       // steps that an ended saga can be retried from, besides the first one
	Fork     []saga.Effects // the choices for a fork
	Budget   bool           // the form has fields for amounts
	Reason   string         // "", "optional" or "required"
	Seen     string         // digest of what the user saw; if that has changed, the command is not sent
	Key      string         // signal: the Idempotency-Key, so pressing the button twice sends one
	Tried    *tried
	Saga     *machine.View
}

// maxFrom is the maximum of steps of which one can be chosen to retry from: the last ones.
const maxFrom = 100

// Lists of steps show at most this many entries of the beginning and of the end.
const (
	listBegin = 40
	listEnd   = 20
)

// listed is a line of a shortened list, with its number, or the number of omitted lines.
type listed struct {
	N    int
	Text string
	More int
}

// partly shortens a list.
func partly(list []string) (lines []listed) {
	for i, text := range list {
		switch more := len(list) - listBegin - listEnd; {
		case more <= 1 || i < listBegin || i >= len(list)-listEnd:
			lines = append(lines, listed{N: i + 1, Text: text})
		case i == listBegin:
			lines = append(lines, listed{More: more})
		}
	}
	return lines
}

// Undone, Remaining and Open return the action's lists, shortened.
func (a action) Undone() []listed    { return partly(a.Undo) }
func (a action) Remaining() []listed { return partly(a.Left) }
func (a action) Open() []listed      { return partly(a.InFlight) }

// Typed returns a field's value from the refused form.
func (a action) Typed(name string) string {
	if a.Tried == nil {
		return ""
	}
	return a.Tried.Typed.Get(name)
}

// Button returns the label of the form's button.
func (a action) Button() string {
	switch a.Do {
	case "cancel", "pause", "resume", "delete":
		return a.Title + " the " + a.Noun
	}
	return a.Title
}

// see sets the digest of the consequences that the user sees.
func (a *action) see() {
	sum := sha256.Sum256([]byte(fmt.Sprint(a.Then, a.Undo, a.Left, a.Signals, a.From, a.Fork)))
	a.Seen = hex.EncodeToString(sum[:8])
}

// actions lists the commands that the user may give now: none that the API would refuse, as far as
// the page can tell.
func (d *sagaPage) actions(who who, was *tried) []action {
	var list []action
	add := func(may string, ok bool, a action) {
		if !ok || !who.Can(may) {
			return
		}
		a.see()
		a.Saga, a.Noun = &d.Saga, d.Noun()
		if was != nil && was.Path == "" && was.Do == a.Do {
			a.Tried = was
			a.Key = cmp.Or(a.Typed("key"), a.Key)
		}
		list = append(list, a)
	}
	add("operate", d.allows(saga.Command{Do: saga.Resume{}}) || d.quarantined(), action{Do: "resume", Title: "Resume", Reason: "optional",
		Then: []string{d.resumed()}})
	add("operate", d.allows(saga.Command{Do: saga.Pause{}}), action{Do: "pause", Title: "Pause", Reason: "optional",
		Then: []string{"No request is sent until somebody resumes the " + d.Noun() + ". Attempts in flight end, and their responses are kept."}, InFlight: d.open()})
	add("operate", d.asksForMoney() || !d.ended() && (d.Saga.Cost.Budget != "" || d.Saga.Cost.Tokens.Budget > 0), action{Do: "budget", Title: "Raise the budget", Budget: true, Reason: "optional",
		Then: []string{"The new budget replaces " + budgetText(d.Saga.Cost) + ". Steps that wait for it continue."}})
	add("signal", !d.ended() && len(d.signals()) > 0 && d.mayCommand(who), action{Do: "signal", Title: "Send a signal", Signals: d.signals(), Key: d.key,
		Then: []string{"The step that waits for the signal continues with the payload. If no step waits yet, the signal is kept until one does."}})
	title := "Cancel"
	if d.Session != nil {
		title = "Abort"
	}
	cancel := d.turning(action{Do: "cancel", Title: title, Danger: true, Modes: true, Reason: "optional"}, false)
	add("cancel", d.allows(saga.Command{Do: saga.Cancel{}}) && d.mayCommand(who), cancel)
	forced := d.turning(action{Do: "compensate", Title: "Undo it", Danger: true, Reason: "required"}, true)
	same := d.allows(saga.Command{Do: saga.Cancel{}}) && slices.Equal(cancel.Undo, forced.Undo)
	add("operate", !same && d.allows(saga.Command{Do: saga.Compensate{}}), forced)
	ended := d.ended() && d.Saga.Archived == nil
	later, possible := d.undoLater()
	add("operate", ended && possible, later)
	again := action{Do: "retry", Title: "Run it again", Reason: "required",
		Then: []string{"A new saga starts: the same version and input, today's variables of the server, new keys. This one stays as it is, and the new one links to it."}}
	repeats := ended && d.Saga.Status != saga.Succeeded && d.Session == nil && d.Saga.UndoOf == "" && d.Saga.ForkedFrom == ""
	if repeats && d.machine != nil {
		again.From = d.machine.RetrySteps(maxFrom)
	}
	if again.From != nil {
		again.Then = append(again.Then, "From a later step, it takes over the results of the steps before that one, and does not repeat them. What was undone runs again.")
	}
	add("operate", repeats, again)
	add("start", d.machine != nil && d.Saga.UndoOf == "" && d.Saga.Archived == nil && (ended || !d.machine.TurnedBack()), action{Do: "fork", Title: "Fork it", Reason: "optional", Fork: d.forks(who),
		Then: []string{"Another " + d.Noun() + " starts as this one was after a record. It reads the results until then, and neither repeats nor undoes them. This one stays as it is."}})
	add("operate", ended, action{Do: "delete", Title: "Delete", Danger: true,
		Then: []string{"The " + d.Noun() + " and its journal are deleted permanently. Its effects in other services remain."}})
	return list
}

// forks lists what a fork may do in place of effects, the default first.
func (d *sagaPage) forks(who who) []saga.Effects {
	list := []saga.Effects{saga.HoldEffects, saga.StubEffects}
	if d.ended() && who.Can("operate") {
		list = append(list, saga.RealEffects)
	}
	return list
}

// undoLater is the command that starts the saga which undoes this one, with what that saga does;
// false: this one has not succeeded, or nothing can undo it any longer.
func (d *sagaPage) undoLater() (action, bool) {
	a := action{Do: "compensate", Title: "Undo", Danger: true, Reason: "required"}
	if d.machine == nil || d.machine.UndoUntil().IsZero() {
		return a, false
	}
	p := d.machine.PlanUndo(d.now)
	if p.Refused != nil {
		return a, false
	}
	for _, u := range p.Steps {
		text := u.Path
		if r := u.Request; r != nil && r.URL != "" {
			text += ": " + r.Method + " " + r.URL
		}
		if u.Note != "" {
			text += ": " + u.Note
		}
		a.Undo = append(a.Undo, text)
	}
	for _, l := range p.Stays {
		a.Left = append(a.Left, l.Path+": "+l.Why)
	}
	a.Then = []string{
		"Another saga starts, which undoes this one, once. This " + d.Noun() + " does not change. That is possible until " + p.Until.UTC().Format("2006-01-02 15:04:05") + " UTC.",
		format.Plural(len(p.Steps), "step is", "steps are") + " undone, in this order:",
	}
	return a, true
}

// turning adds the consequences of undoing the saga now.
func (d *sagaPage) turning(a action, forced bool) action {
	if d.machine == nil {
		a.Then = []string{"The saga's steps are undone as its definition says. This program cannot read the saga, so it cannot list them."}
		return a
	}
	undo, left := d.machine.Undoable(forced)
	a.Undo, a.InFlight = undo, d.open()
	for _, l := range left {
		a.Left = append(a.Left, l.Path+": "+l.Why)
	}
	switch {
	case len(undo) == 0:
		a.Then = []string{"The " + d.Noun() + " ends. There is nothing to undo."}
		a.Modes = a.Modes && len(a.InFlight) > 0 // attempts in flight may have effects
	case forced && !d.allows(saga.Command{Do: saga.Cancel{}}):
		a.Then = []string{"The saga has passed its pivot. It is undone nevertheless: " + format.Plural(len(undo), "step is", "steps are") + " undone, in this order:"}
	default:
		a.Then = []string{"The " + d.Noun() + " is undone: " + format.Plural(len(undo), "step is", "steps are") + " undone, in this order:"}
	}
	return a
}

// resumed says what a resume does.
func (d *sagaPage) resumed() string {
	if d.Session != nil && d.Saga.Status != saga.PausedStatus && d.Session.Policy.OnLost != nil {
		return "The session waits for another process of the agent, for " + d.Session.Policy.OnLost.Wait + "."
	}
	if d.Saga.Status != saga.PausedStatus && d.onHold() {
		return "The steps that are on hold are tried again, with the same keys. Everything before them stays as it is."
	}
	return "The " + d.Noun() + " continues where it stopped."
}

// open lists the attempts in flight.
func (d *sagaPage) open() (paths []string) {
	if d.machine == nil {
		return nil
	}
	for _, a := range d.machine.InFlight() {
		step, _ := saga.SplitQuery(a.Path)
		paths = append(paths, step)
	}
	return paths
}

// signals lists the signals that the definition's steps wait for.
func (d *sagaPage) signals() []string {
	if d.Def == nil {
		return nil
	}
	return d.Def.Signals()
}

// mayCommand reports whether the API accepts signals and a cancel of this saga from the user: roles
// that do not command every saga may command only the sagas that they started. (A key that is bound
// to signals cannot read pages.) If this program cannot read the saga, only the API knows its
// starter.
func (d *sagaPage) mayCommand(who who) bool {
	return who.Can("operate") || d.machine != nil && d.machine.Starter() == who.Name
}

func (d *sagaPage) quarantined() bool {
	return slices.ContainsFunc(d.Entries, func(e entry) bool { return e.Kind == saga.InboxStuck && e.Path == "" })
}

func (d *sagaPage) onHold() bool {
	return slices.ContainsFunc(d.Entries, func(e entry) bool { return e.Kind == saga.InboxExhausted })
}

func (d *sagaPage) asksForMoney() bool {
	return slices.ContainsFunc(d.Entries, func(e entry) bool { return e.Kind == saga.InboxBudget })
}

// budgetText writes a saga's budget.
func budgetText(c saga.CostView) string {
	var limits []string
	if c.Budget != "" {
		limits = append(limits, strings.TrimSpace(c.Budget+" "+c.Currency))
	}
	if n := c.Tokens.Budget; n > 0 {
		limits = append(limits, fmt.Sprintf("%d tokens", n))
	}
	if len(limits) == 0 {
		return "none"
	}
	return strings.Join(limits, " and ")
}

// commandTries is the maximum of attempts to send a command while the saga changes.
const commandTries = 8

// sendCommand serves POST /sagas/{id}/command/{name}. It compares the consequences that the user
// saw with those of the saga at a seq, and sends the command for that seq only. If the saga has
// changed in between, it compares again.
func sendCommand(v *request) error {
	do, f := v.r.PathValue("name"), v.posted()
	for range commandTries {
		d, err := v.readSaga(v.r.PathValue("id"))
		if err != nil {
			return err
		}
		list := d.actions(v.who, nil)
		at := slices.IndexFunc(list, func(a action) bool { return a.Do == do })
		// The page no longer offers the command, because a cancel has the same consequences now.
		// The user saw others.
		hidden := at < 0 && do == "compensate" && v.who.Can("operate") && d.allows(saga.Command{Do: saga.Compensate{}})
		if hidden || at >= 0 && list[at].Seen != f.Get("seen") {
			return v.refused(do, "", &rest.Problem{Status: http.StatusPreconditionFailed})
		}
		if err := v.execute(d, do, f); !errors.Is(err, errMoved) {
			return err
		}
	}
	return v.refused(do, "", tooFast())
}

// tooFast is the problem of a command whose saga changed at every attempt.
func tooFast() *rest.Problem {
	return &rest.Problem{Status: http.StatusConflict, Title: "The saga changes too fast for this command",
		Detail: "Nothing was done. Each time the command arrived, the saga had already changed. Pause it, then repeat the command."}
}

// errMoved means that a command was not applied because the saga has changed since it was read.
var errMoved = errors.New("the saga has changed")

// asOf returns the header that makes a command apply only to the saga at a seq.
func asOf(seq int64) http.Header { return http.Header{"If-Match": {fmt.Sprintf(`"%d"`, seq)}} }

// hasMoved reports whether the API refused a command because the saga has changed.
func hasMoved(err error) bool {
	var p *rest.Problem
	return errors.As(err, &p) && p.Status == http.StatusPreconditionFailed
}

// execute sends a command to the API and shows the result. Error: errMoved.
func (v *request) execute(d *sagaPage, do string, f url.Values) error {
	id, header := d.Saga.ID, http.Header{}
	asSeen := asOf(d.Saga.Seq)
	if d.machine == nil {
		asSeen.Set("If-Match", "*") // the consequences are unknown
	}
	v.release() // a command may wait
	at := rest.Path("v1", "sagas", id, do)
	body := map[string]any{}
	if why := f.Get("reason"); why != "" {
		body["reason"] = why
	}
	method, done := http.MethodPost, map[string]string{
		"pause": "The saga is paused.", "resume": "The saga is resumed.", "cancel": "The saga is cancelled, and is being undone.", "compensate": "The saga is being undone."}[do]
	if d.Session != nil && do == "cancel" {
		done = "The session is aborted, and is being undone."
	}
	switch do {
	case "pause", "resume": // their consequences do not depend on the saga's state
	case "compensate":
		header = asSeen
		if d.ended() {
			return v.undoEnded(at, body, header)
		}
	case "cancel":
		header = asSeen
		if f.Get("mode") == "stop" {
			done = strings.TrimSuffix(done, ", and is being undone.") + ". Nothing is undone."
		}
		if f.Has("mode") {
			body["mode"] = f.Get("mode")
		}
	case "retry":
		if from := f.Get("from"); from != "" {
			body["from"] = from
		}
		return v.again(d, at, body, f)
	case "fork":
		return v.fork(d, at, body, f)
	case "budget":
		method, at, header, done = http.MethodPatch, rest.Path("v1", "sagas", id), asSeen, "The budget is changed."
		body["budget"] = budgetOf(f)
	case "signal":
		return v.signal(id, f)
	case "delete":
		if _, err := v.api.Do(v.r.Context(), http.MethodDelete, rest.Path("v1", "sagas", id), nil, nil, nil); err != nil {
			return v.refused(do, "", err)
		}
		return v.done("/", "Saga "+id+" is deleted.")
	default:
		return &rest.Problem{Status: http.StatusNotFound, Title: "No such command", Detail: "go back to the saga, and use one of its commands"}
	}
	r, err := v.api.Send(method, at, body, header, nil)
	switch {
	case err != nil && hasMoved(err):
		return errMoved
	case err != nil:
		return v.refused(do, "", err)
	case r.Unread():
		done = unread
	}
	return v.done(rest.Path("sagas", id), done)
}

// unread is the notice of a command that has no effect yet.
const unread = "The command is stored, and has no effect yet: no node has read it. It is in the journal as soon as one has."

// again starts a saga again as a new one. The idempotency key is derived from the reason, so
// pressing the button twice starts one saga.
func (v *request) again(d *sagaPage, at string, body map[string]any, f url.Values) error {
	sum := sha256.Sum256([]byte(d.Saga.ID + "\n" + f.Get("from") + "\n" + f.Get("reason")))
	var next machine.View
	r, err := v.api.Send(http.MethodPost, at, body, http.Header{"Idempotency-Key": {"page-" + hex.EncodeToString(sum[:16])}}, &next)
	if err != nil {
		return v.refused("retry", "", err)
	}
	if r.Header.Get("Idempotency-Replayed") != "" && f.Get("from") != "" {
		return v.done(rest.Path("sagas", next.ID), "This saga has gone on from there before. To go on again, run this one again.")
	}
	if r.Header.Get("Idempotency-Replayed") != "" {
		return v.done(rest.Path("sagas", next.ID), "This saga was started before for the same reason. To start another one, give another reason.")
	}
	done := "This is the new saga: " + d.Saga.Definition + " runs again."
	if from := f.Get("from"); from != "" {
		done = "This is the new saga: " + d.Saga.Definition + " goes on from step " + from + "."
	}
	return v.done(rest.Path("sagas", next.ID), done)
}

// fork starts a fork. The idempotency key is derived from the form, so pressing the button twice
// starts one fork.
func (v *request) fork(d *sagaPage, at string, body map[string]any, f url.Values) error {
	if record := strings.TrimSpace(f.Get("at")); record != "" {
		n, err := strconv.ParseInt(record, 10, 64)
		if err != nil {
			return v.refused("fork", "", &rest.Problem{Status: http.StatusUnprocessableEntity, Title: "The record is a number", Detail: "write the number of a record as the journal shows it, or nothing"})
		}
		body["at"] = n
	}
	if effects := f.Get("effects"); effects != "" {
		body["effects"] = effects
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{d.Saga.ID, "fork", f.Get("at"), f.Get("effects"), f.Get("reason"), strconv.FormatInt(d.Saga.Seq, 10)}, "\n")))
	var next machine.View
	if _, err := v.api.Send(http.MethodPost, at, body, http.Header{"Idempotency-Key": {"page-" + hex.EncodeToString(sum[:16])}}, &next); err != nil {
		return v.refused("fork", "", err)
	}
	return v.done(rest.Path("sagas", next.ID), fmt.Sprintf("This is the fork, which goes on after record %d of saga %s.", next.ForkedAt, d.Saga.ID))
}

// undoEnded starts the saga that undoes one that has succeeded, or finds the one that was started
// before. Error: errMoved.
func (v *request) undoEnded(at string, body map[string]any, header http.Header) error {
	var next machine.View
	r, err := v.api.Send(http.MethodPost, at, body, header, &next)
	switch {
	case err != nil && hasMoved(err):
		return errMoved
	case err != nil:
		return v.refused("compensate", "", err)
	case r.Header.Get("Idempotency-Replayed") != "":
		return v.done(rest.Path("sagas", next.ID), "This saga was started before to undo the other one. Nothing is undone twice.")
	}
	return v.done(rest.Path("sagas", next.ID), "This is the new saga, which undoes saga "+next.UndoOf+".")
}

// budgetOf returns the budget in a form.
func budgetOf(f url.Values) any {
	b := map[string]any{}
	if amount := strings.TrimSpace(f.Get("amount")); amount != "" {
		b["amount"] = amount
	}
	if tokens := strings.TrimSpace(f.Get("tokens")); tokens != "" {
		b["tokens"] = tokens
		if json.Valid([]byte(tokens)) {
			b["tokens"] = json.RawMessage(tokens)
		}
	}
	return b
}

func (v *request) signal(id string, f url.Values) error {
	var payload any
	if text := strings.TrimSpace(f.Get("payload")); text != "" {
		doc, err := jsonOf("the payload", text)
		if err != nil {
			return v.refused("signal", "", err)
		}
		payload = doc
	}
	name, header := f.Get("name"), http.Header{}
	if key := f.Get("key"); key != "" {
		header.Set("Idempotency-Key", key)
	}
	r, err := v.api.Send(http.MethodPost, rest.Path("v1", "sagas", id, "signals", name), payload, header, nil)
	if p, ok := errors.AsType[*rest.Problem](err); ok && strings.HasSuffix(p.Type, ":idempotency_key_reused") {
		p.Title, p.Detail = "This form has already sent a signal", "it was another one. To send this one, too, press the button again."
		f.Del("key") // the page has a new one
	}
	if err != nil {
		return v.refused("signal", "", err)
	}
	if r.Header.Get("Idempotency-Replayed") != "" {
		return v.done(rest.Path("sagas", id), "The signal "+name+" was sent before, by the same form. To send it again, use the form of this page.")
	}
	return v.done(rest.Path("sagas", id), "The signal "+name+" is sent.")
}
