package world

import (
	"net/http"
	"time"
)

// scope is the scope of a key: one service.
type scope struct{ service, key string }

// claim is a used key: in flight, or with its stored response.
type claim struct {
	print  string // fingerprint of the request that claimed the key
	done   bool
	answer answer
	at     time.Time // time of the response
}

// keys are the claims of all services. Its owner's lock guards it: an effect and its claim change
// under the same lock.
type keys struct {
	window time.Duration // how long a response is stored; 0 for forever
	claims map[scope]*claim
}

func newKeys(window time.Duration) keys {
	return keys{window: window, claims: make(map[scope]*claim)}
}

// take claims the call's key. If ok is true the caller continues with the effect, and must call
// settle; otherwise the response is the stored one, 409 while the first request is in flight, or
// 422 for another request with the same key.
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
			"the first request with this idempotency key is still in flight: retry in a second")
		a.header.Set("Retry-After", "1")
		return a, false
	}
	return old.answer.replay(), false
}

// settle ends the claim of take: a success is stored, anything else frees the key.
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
