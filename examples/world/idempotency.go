package world

import (
	"net/http"
	"time"
)

// scope is where a key means something: one service.
type scope struct{ service, key string }

// claim is a key that was seen: in flight, or done with its stored answer.
type claim struct {
	print  string // of the request that took the key
	done   bool
	answer answer
	at     time.Time // of the answer
}

// keys are the claims of all services. Its owner's lock guards it: an effect and its claim change
// under the same lock.
type keys struct {
	window time.Duration // how long an answer is remembered; 0 for ever
	claims map[scope]*claim
}

func newKeys(window time.Duration) keys {
	return keys{window: window, claims: make(map[scope]*claim)}
}

// take claims the call's key. ok is true when the caller may go on to the effect, and must then
// settle; otherwise the answer is the stored one, 409 while the first request is at work, or 422
// for another request under the same key.
func (k keys) take(c *call, now time.Time) (a answer, ok bool) {
	at := c.scope()
	if at.key == "" {
		return answer{}, true
	}
	old := k.claims[at]
	if old != nil && old.done && k.window > 0 && now.Sub(old.at) >= k.window {
		old = nil
	}
	switch {
	case old == nil:
		k.claims[at] = &claim{print: c.print()}
		return answer{}, true
	case old.print != c.print():
		return problem(http.StatusUnprocessableEntity, "key used for another request",
			"this idempotency key came with another method, path or body before: send the same request, or a new key"), false
	case !old.done:
		a := problem(http.StatusConflict, "request in flight",
			"the first request with this idempotency key is still being worked on: send it again in a second")
		a.header.Set("Retry-After", "1")
		return a, false
	}
	return old.answer.replay(), false
}

// settle ends the claim that take gave: a success is stored, anything else frees the key.
func (k keys) settle(c *call, a answer, now time.Time) {
	at := c.scope()
	if at.key == "" {
		return
	}
	if a.status < 200 || a.status > 299 {
		delete(k.claims, at)
		return
	}
	*k.claims[at] = claim{print: c.print(), done: true, answer: a, at: now}
}
