package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"time"

	"recourse/examples/world"
	"recourse/saga"
	"recourse/saga/machine"
)

// margin is the `after` of the definitions here.
const margin = time.Second

// remembered is how long the service "forgetful" keeps a key: the key_window of 2 s that its step
// declares, plus the time that a request may be in flight.
const remembered = 2*time.Second + time.Second + margin

// theWorld is the remote service: it honours keys, stores its effects, and has a status check.
//
//	POST /do/<service>           an effect; {"id": …}
//	DELETE /do/<service>/<id>    undoes it
//	DELETE /do/<service>?key=K   undoes the effect of K, or prevents it (but see ownService)
//	GET /status/<service>?key=K  {"count": …, "id": …}
//	GET /look                    {}
//
// Its tools, for mcp steps, are in tools.go.
type theWorld struct {
	s       *sim
	o       Options
	ledger  world.Ledger
	keys    map[string]*stored
	made    map[string]string // effect id → key
	byKey   map[string][]string
	undone  map[string]bool   // effect id
	answers map[string]string // of models, by key
	billed  map[string]int    // requests to models, by key
	barred  map[string]bool   // keys that were undone before their effect
	refuse  map[string]bool   // keys that the service refuses for business reasons, each time
	prices  map[string]int    // the answers of reads that have to be fresh, by path
	n       int
}

type stored struct {
	answer saga.Answer
	ready  time.Time // in flight until then
	id     string
}

func newWorld(s *sim, o Options) *theWorld {
	return &theWorld{s: s, o: o, answers: make(map[string]string), billed: make(map[string]int), keys: make(map[string]*stored), made: make(map[string]string), byKey: make(map[string][]string), undone: make(map[string]bool),
		barred: make(map[string]bool), refuse: make(map[string]bool), prices: make(map[string]int)}
}

func (w *theWorld) entry(e world.Entry) {
	e.N, e.At = int64(len(w.ledger)+1), w.s.now
	w.ledger = append(w.ledger, e)
}

func reply(status int, body string) saga.Answer {
	return saga.Answer{Sent: true, Status: status, Body: json.RawMessage(body)}
}

// arrive handles a request that arrives now.
func (w *theWorld) arrive(send machine.Send, answer func(saga.Answer)) {
	s := w.s
	u, err := target(&send.Request)
	if err != nil {
		panic(err)
	}
	if t := send.Request.Tool; t != nil {
		w.entry(world.Entry{Kind: world.Request, Service: u.Path, Key: t.Meta[saga.KeyMeta]})
	} else {
		sum := sha256.Sum256(send.Request.Body)
		w.entry(world.Entry{Kind: world.Request, Service: u.Path, Method: send.Request.Method, Path: u.RequestURI(), Key: send.Request.Headers["Idempotency-Key"],
			BodySHA256: hex.EncodeToString(sum[:])})
	}
	took := s.between(time.Millisecond, 30*time.Millisecond)
	back := func(a saga.Answer) { s.after(took, func() { answer(a) }) }
	switch {
	case s.fault(WorldDrops, u.Path):
		back(saga.Answer{Sent: true, Code: "connection"}) // dropped without an effect
		return
	case s.fault(World503, u.Path):
		back(reply(503, `{}`))
		return
	case s.fault(World429, u.Path):
		a := reply(429, `{}`)
		seconds := s.rng.IntN(7)
		a.RetryAfter, a.Headers = time.Duration(seconds)*time.Second, map[string]string{"retry-after": strconv.Itoa(seconds)}
		back(a)
		return
	case s.fault(World401, u.Path):
		back(reply(401, `{}`))
		return
	}
	if isModel(u) {
		a := w.answer(send)
		if s.fault(AnswerLost, u.Path) {
			a = saga.Answer{Sent: true, Code: "connection"}
		}
		back(a)
		return
	}
	a := w.process(u, send, took)
	if s.fault(WorldTwice, u.Path) { // the network delivers it twice
		s.after(s.between(0, 100*time.Millisecond), func() { w.process(u, send, took) })
	}
	switch {
	case a.Status < 300 && s.fault(AnswerLost, u.Path):
		back(saga.Answer{Sent: true, Code: "connection"}) // done, but the response is lost
	case a.Status < 300 && s.fault(Answer500, u.Path):
		back(reply(500, `{}`))
	case a.Status < 300 && s.fault(AnswerCut, u.Path):
		back(saga.Answer{Sent: true, Status: 200, Code: "body_cut"})
	default:
		back(a)
	}
}

func (w *theWorld) process(u *url.URL, send machine.Send, took time.Duration) saga.Answer {
	if send.Request.Tool != nil {
		return w.call(u, send, took)
	}
	switch send.Request.Method {
	case "GET":
		return w.status(u)
	case "DELETE":
		return w.del(u, send)
	}
	return w.post(u, send, took)
}

func (w *theWorld) status(u *url.URL) saga.Answer {
	if strings.HasPrefix(u.Path, "/price/") {
		if w.s.fault(PriceMoves, u.Path) {
			w.prices[u.Path]++
		}
		return reply(200, `{"price":`+strconv.Itoa(w.prices[u.Path])+`}`)
	}
	if !strings.HasPrefix(u.Path, "/status/") {
		return reply(200, `{}`)
	}
	if w.s.fault(StatusDown, u.Path) {
		return reply(404, `{}`) // the status endpoint is down: this 404 says nothing about the effect
	}
	st := w.keys[u.Query().Get("key")]
	if st == nil || st.id == "" {
		return reply(200, `{"count":0,"id":null}`)
	}
	return reply(200, `{"count":1,"id":"`+st.id+`"}`)
}

func (w *theWorld) post(u *url.URL, send machine.Send, took time.Duration) saga.Answer {
	a, made := w.make(send.Request.Headers["Idempotency-Key"], u.Path, took)
	if made != "" {
		w.entry(world.Entry{Kind: world.Effect, Service: u.Path, Method: "POST", Path: u.Path, Key: w.made[made], EffectID: made})
	}
	return a
}

// make has the effect of a request with this key. made is the effect's id, "" if there is no new
// one.
func (w *theWorld) make(key, path string, took time.Duration) (a saga.Answer, made string) {
	if w.barred[key] {
		return reply(410, `{}`), ""
	}
	if st := w.keys[key]; st != nil && strings.HasSuffix(path, "/forgetful") && w.s.now.Sub(st.ready) > remembered {
		delete(w.keys, key)
	}
	if st := w.keys[key]; st != nil && !w.o.ForgetKeys {
		if w.s.now.Before(st.ready) {
			return reply(409, `{}`), ""
		}
		return st.answer, ""
	}
	if refused, known := w.refuse[key]; known && refused {
		return reply(422, `{}`), ""
	} else if !known {
		w.refuse[key] = w.s.fault(BusinessRefuses, path)
		if w.refuse[key] {
			return reply(422, `{}`), ""
		}
	}
	w.n++
	id := "e" + strconv.Itoa(w.n)
	w.made[id] = key
	w.byKey[key] = append(w.byKey[key], id)
	w.keys[key] = &stored{answer: reply(201, `{"id":"`+id+`"}`), ready: w.s.now.Add(took), id: id}
	return w.keys[key].answer, id
}

func (w *theWorld) del(u *url.URL, send machine.Send) saga.Answer {
	own, id := send.Request.Headers["Idempotency-Key"], ""
	key := u.Query().Get("key")
	if key == "" {
		id = u.Path[strings.LastIndex(u.Path, "/")+1:]
	}
	a, undone := w.undo(own, u.Path, key, id)
	if undone != "" {
		w.entry(world.Entry{Kind: world.Undo, Service: u.Path, Method: "DELETE", Path: u.RequestURI(), Key: own, EffectID: "u" + undone, Undoes: undone})
	}
	return a
}

// undo undoes an effect: the past or future effect of a key, or the effect with an id. undone is
// the effect's id, "" if there was nothing to undo.
func (w *theWorld) undo(own, path, key, id string) (a saga.Answer, undone string) {
	if st := w.keys[own]; st != nil {
		return st.answer, ""
	}
	if w.s.fault(UndoRefused, path) {
		return reply(422, `{}`), "" // refused until a person retries it
	}
	if key != "" {
		w.barred[key] = path != ownService
		if st := w.keys[key]; st != nil {
			id = st.id
		}
	} else if w.made[id] == "" || w.undone[id] {
		return reply(404, `{}`), ""
	}
	if id != "" && !w.undone[id] {
		w.undone[id], undone = true, id
	}
	w.keys[own] = &stored{answer: reply(200, `{}`), ready: w.s.now}
	return w.keys[own].answer, undone
}

// undoByHand lets a person undo the effect of a key.
func (w *theWorld) undoByHand(key string) {
	if st := w.keys[key]; st != nil {
		w.undone[st.id] = true
	}
}

// did returns the effect of a key, and whether it was not undone.
func (w *theWorld) did(key string) (id string, live bool) {
	if st := w.keys[key]; st != nil && st.id != "" {
		return st.id, !w.undone[st.id]
	}
	return "", false
}
