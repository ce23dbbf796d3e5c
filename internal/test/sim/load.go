package sim

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/engine"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
	"recourse/saga/machine"
)

// sources are the definitions that the runs use.
var sources = []string{`
saga: by-id
input: {n: integer}
steps:
  - {id: a, http: "POST http://w/do/a", body: {n: "${input.n}"}, timeout: 1s, retry: {initial: 100ms, attempts: 6}, compensate: {http: "DELETE http://w/do/a/${output.id}", timeout: 1s, retry: {initial: 100ms}}}
  - {id: b, http: "POST http://w/do/b", body: {a: "${steps.a.output.id}"}, timeout: 1s, retry: {initial: 100ms, attempts: 6}, compensate: {http: "DELETE http://w/do/b/${output.id}", timeout: 1s, retry: {initial: 100ms}}}
  - {id: c, http: "POST http://w/do/c", body: {b: "${steps.b.output.id}"}, timeout: 1s, retry: {initial: 100ms, attempts: 6}, compensate: {http: "DELETE http://w/do/c/${output.id}", timeout: 1s, retry: {initial: 100ms}}}
`, `
saga: by-key
input: {n: integer}
timeout: 40s
steps:
  - {id: a, http: "POST http://w/do/a", body: {n: "${input.n}"}, timeout: 1s, retry: {initial: 100ms, attempts: 3}, compensate: {http: "DELETE http://w/do/a?key=${key}", timeout: 1s, retry: {initial: 100ms}}}
  - {id: nap, sleep: 2s}
  - {id: b, http: "POST http://w/do/b", body: {}, timeout: 1s, retry: {initial: 100ms, attempts: 2}, compensate: {http: "DELETE http://w/do/b?key=${key}", timeout: 1s, retry: {initial: 100ms}}}
  - {id: look, http: "GET http://w/look", timeout: 1s, retry: {initial: 100ms}}
  - {id: long, sleep: 20s}
  - {id: c, http: "POST http://w/do/c", body: {}, timeout: 1s, in_doubt: fail, retry: 2, compensate: {http: "DELETE http://w/do/c?key=${key}", timeout: 1s, order: first, retry: {initial: 100ms}}}
`, `
saga: verified
input: {n: integer}
steps:
  - {id: hold, http: "POST http://w/do/hold", body: {n: "${input.n}"}, timeout: 1s, retry: {initial: 100ms, attempts: 6}, compensate: {http: "DELETE http://w/do/hold/${output.id}", timeout: 1s, retry: {initial: 100ms}}}
  - id: pay
    http: POST http://w/do/pay
    body: {n: "${input.n}"}
    timeout: 1s
    retry: {initial: 100ms, attempts: 4}
    in_doubt: {verify: {http: "GET http://w/status/pay?key=${key}", timeout: 1s, found: result.body.count > 0, output: {id: "${result.body.id}"}, after: 1s}, otherwise: ask}
    pivot: true
  - {id: mail, http: "POST http://w/do/mail", body: {pay: "${steps.pay.output.id}"}, timeout: 1s, in_doubt: fail, on_error: continue}
  - {id: ship, http: "POST http://w/do/ship", body: {pay: "${steps.pay.output.id}"}, timeout: 1s, retry: {initial: 100ms, attempts: 3}}
finally:
  - {id: tell, http: "PUT http://w/do/tell", body: {status: "${saga.status}"}, timeout: 1s, retry: 2, in_doubt: fail}
`, `
saga: asked
input: {n: integer}
budget: {amount: 0.08 USD, on_exceed: ask}
steps:
  - {id: a, http: "POST http://w/do/a", body: {n: "${input.n}"}, cost: 0.02 USD, timeout: 1s, in_doubt: ask, retry: {initial: 100ms}, compensate: {http: "DELETE http://w/do/a/${output.id}", timeout: 1s, retry: {initial: 100ms}}}
  - id: route
    switch:
      - when: input.n % 3 == 0
        steps:
          - {id: b, http: "POST http://w/do/b", body: {}, cost: 0.03 USD, timeout: 1s, in_doubt: ask, retry: {initial: 100ms}, compensate: {http: "DELETE http://w/do/b/${output.id}", timeout: 1s, retry: {initial: 100ms}}}
          - {id: no, fail: "always"}
      - steps:
          - {id: c, http: "POST http://w/do/c", when: input.n % 3 == 1, body: {}, cost: 0.03 USD, timeout: 1s, in_doubt: ask, compensate: {http: "DELETE http://w/do/c/${output.id}", timeout: 1s, retry: {initial: 100ms}}}
  - {id: d, http: "POST http://w/do/d", body: {}, cost: 0.02 USD, timeout: 1s, retry: {initial: 100ms}, compensate: {http: "DELETE http://w/do/d/${output.id}", timeout: 1s, retry: {initial: 100ms}}}
`, `
saga: odd
input: {n: integer}
steps:
  - {id: a, http: "POST http://w/do/a", body: {n: "${input.n}"}, timeout: 1s, deadline: 4s, retry: {initial: 200ms, attempts: 9, not_on: [503]}, compensate: {http: "DELETE http://w/do/a?key=${key}", timeout: 1s, order: last, retry: {initial: 100ms}}}
  - {id: b, http: "POST http://w/do/forgetful", body: {}, timeout: 1s, key_window: 2s, retry: {initial: 400ms, attempts: 9}, compensate: {http: "DELETE http://w/do/forgetful/${output.id}", timeout: 1s, retry: 3, when: "output?.id != null"}}
  - id: c
    http: POST http://w/do/c
    body: {}
    timeout: 1s
    retry: {initial: 100ms, attempts: 3}
    in_doubt: {verify: {http: "GET http://w/status/c?key=${key}", timeout: 1s, found: result.body.count > 0, output: {id: "${result.body.id}"}, after: 1s}, otherwise: retry}
    compensate: {http: "DELETE http://w/do/c/${output.id}", timeout: 1s, order: first, on: [succeeded, in_doubt], retry: {initial: 100ms}}
  - id: maybe
    on_error: continue
    switch:
      - when: input.n % 2 == 0
        steps:
          - {id: d, http: "PUT http://w/do/d", body: {}, timeout: 1s, retry: 2, compensate: {http: "DELETE http://w/do/d?key=${key}", timeout: 1s, retry: {initial: 100ms}}}
          - {id: e, fail: "in the branch"}
  - {id: last, when: "input.n % 3 > 0", fail: "at the end"}
finally:
  - {id: tell, http: "POST http://w/do/tell", body: {status: "${saga.status}"}, timeout: 1s, in_doubt: ask}
`, `
saga: nested
input: {n: integer}
timeout: 60s
steps:
  - {id: a, http: "POST http://w/do/a", body: {n: "${input.n}"}, timeout: 1s, retry: {initial: 100ms, attempts: 3, not_on: [5xx]}, compensate: {http: "DELETE http://w/do/a?key=${key}", timeout: 1s, order: last, retry: {initial: 100ms}}}
  - id: sw
    on_error: continue
    switch:
      - when: input.n % 2 == 0
        steps:
          - {id: b, http: "POST http://w/do/b", body: {}, timeout: 1s, in_doubt: fail, retry: {initial: 100ms, attempts: 2}, compensate: {http: "DELETE http://w/do/b/${output.id}", timeout: 1s, retry: {initial: 100ms}}}
          - {id: c, http: "POST http://w/do/c", body: {}, timeout: 1s, retry: {initial: 100ms, attempts: 2}, compensate: {http: "DELETE http://w/do/c?key=${key}", timeout: 1s, retry: {initial: 100ms}}}
          - {id: no, when: input.n % 4 == 0, fail: "inner"}
      - steps:
          - {id: d, http: "POST http://w/do/d", body: {}, timeout: 1s, in_doubt: {verify: {http: "GET http://w/status/d?key=${key}", timeout: 1s, found: result.body.count > 0, output: {id: "${result.body.id}"}, after: 1s}, otherwise: fail}, compensate: {http: "DELETE http://w/do/d/${output.id}", timeout: 1s, retry: {initial: 100ms}}}
  - {id: nap, sleep: 3s}
  - {id: e, http: "POST http://w/do/e", body: {}, timeout: 1s, key_window: 4s, deadline: 20s, retry: {initial: 1s, attempts: 8, on: ["503","timeout","connection","interrupted"]}, compensate: {http: "DELETE http://w/do/e?key=${key}", timeout: 1s, order: first, key_window: 6s, retry: {initial: 100ms}}}
  - {id: f, when: input.n % 3 == 0, fail: "end"}
`, `
saga: money
input: {n: integer}
budget: 0.12 USD
steps:
  - {id: a, http: "POST http://w/do/a", body: {n: "${input.n}"}, cost: 0.02 USD, timeout: 1s, retry: {initial: 100ms}, compensate: {http: "DELETE http://w/do/a/${output.id}", timeout: 1s, cost: 0.05 USD, retry: {initial: 100ms}}}
  - {id: b, http: "POST http://w/do/b", body: {n: "${input.n}"}, cost: 0.03 USD, on_error: continue, timeout: 1s, retry: {initial: 100ms}, compensate: {http: "DELETE http://w/do/b/${output.id}", timeout: 1s, retry: {initial: 100ms}}}
  - {id: c, http: "POST http://w/do/c", body: {n: "${input.n}"}, cost: 0.03 USD, pivot: true, timeout: 1s, retry: {initial: 100ms}}
  - id: sw
    switch:
      - when: input.n % 2 == 0
        steps:
          - {id: d, http: "POST http://w/do/d", body: {}, cost: 0.02 USD, timeout: 1s, retry: {initial: 100ms, attempts: 2}}
      - steps:
          - {id: e, http: "POST http://w/do/e", body: {}, in_doubt: ask, timeout: 1s, retry: {initial: 100ms, attempts: 2}}
finally:
  - {id: tell, http: "POST http://w/do/tell", body: {s: "${saga.status}"}, timeout: 1s, cost: 0.01 USD, in_doubt: ask, retry: 2}
`, `
saga: held
input: {n: integer}
timeout: 60s
budget: 0.12 USD
defaults: {on_error: hold}
steps:
  - {id: a, http: "POST http://w/do/a", body: {n: "${input.n}"}, cost: 0.02 USD, timeout: 1s, retry: {initial: 100ms, attempts: 2}, hold_for: 6s, compensate: {http: "DELETE http://w/do/a/${output.id}", timeout: 1s, retry: {initial: 100ms}}}
  - id: both
    parallel:
      - {id: b, http: "POST http://w/do/b", body: {n: "${input.n}"}, timeout: 1s, retry: none, hold_for: 3s, key_window: 30s, compensate: {http: "DELETE http://w/do/b?key=${key}", timeout: 1s, retry: {initial: 100ms}}}
      - id: each
        foreach: [1, 2]
        steps:
          - {id: c, http: "POST http://w/do/c", body: {}, timeout: 1s, retry: none, hold_for: 3s, in_doubt: {verify: {http: "GET http://w/status/c?key=${key}", timeout: 1s, found: result.body.count > 0, output: {id: "${result.body.id}"}, after: 1s}, otherwise: retry}, compensate: {http: "DELETE http://w/do/c/${output.id}", timeout: 1s, retry: {initial: 100ms}}}
  - {id: d, http: "POST http://w/do/d", body: {}, cost: 0.02 USD, timeout: 1s, retry: {initial: 100ms, attempts: 2}, deadline: 3s, compensate: {http: "DELETE http://w/do/d?key=${key}", timeout: 1s, retry: {initial: 100ms}}}
  - {id: no, when: input.n % 3 == 0, fail: "end"}
`, `
saga: doubts
input: {n: integer}
steps:
  - id: a
    http: POST http://w/do/a
    body: {}
    timeout: 1s
    retry: {initial: 100ms, attempts: 4}
    in_doubt: {verify: {http: "GET http://w/status/a?key=${key}", timeout: 1s, found: result.body.count > 0, output: {id: "${result.body.id}"}, after: 1s}, otherwise: retry}
    compensate: {http: "DELETE http://w/do/a?key=${key}", timeout: 1s, retry: {initial: 100ms}}
  - id: b
    http: POST http://w/do/b
    body: {}
    timeout: 1s
    on_error: continue
    in_doubt: {verify: {http: "GET http://w/status/b?key=${key}", timeout: 1s, found: result.body.count > 0, output: {id: "${result.body.id}"}, after: 1s}, otherwise: fail}
    compensate: {http: "DELETE http://w/do/b/${output.id}", timeout: 1s, order: first, retry: {initial: 100ms}}
  - {id: nap, sleep: 4s}
  - {id: no, when: input.n % 2 == 0, fail: "x"}
finally:
  - id: tell
    http: POST http://w/do/tell
    body: {s: "${saga.status}"}
    timeout: 1s
    in_doubt: {verify: {http: "GET http://w/status/tell?key=${key}", timeout: 1s, found: result.body.count > 0, output: {id: "${result.body.id}"}, after: 1s}, otherwise: ask}
`, `
saga: wide
input: {n: integer}
timeout: 60s
budget: 0.20 USD
steps:
  - {id: a, http: "POST http://w/do/a", body: {n: "${input.n}"}, timeout: 1s, retry: {initial: 100ms, attempts: 6}, compensate: {http: "DELETE http://w/do/a/${output.id}", timeout: 1s, retry: {initial: 100ms}}}
  - id: both
    parallel:
      - {id: b, http: "POST http://w/do/b", body: {}, cost: 0.03 USD, timeout: 1s, retry: {initial: 100ms, attempts: 3}, compensate: {http: "DELETE http://w/do/b/${output.id}", timeout: 1s, retry: {initial: 100ms}}}
      - id: c
        http: POST http://w/do/c
        body: {}
        cost: 0.03 USD
        timeout: 1s
        retry: {initial: 100ms, attempts: 3}
        in_doubt: {verify: {http: "GET http://w/status/c?key=${key}", timeout: 1s, found: result.body.count > 0, output: {id: "${result.body.id}"}, after: 1s}, otherwise: ask}
        compensate: {http: "DELETE http://w/do/c/${output.id}", timeout: 1s, retry: {initial: 100ms}}
      - {id: nap, sleep: 3s}
      - {id: d, http: "POST http://w/do/d", body: {}, timeout: 1s, in_doubt: ask, retry: {initial: 100ms}, compensate: {http: "DELETE http://w/do/d?key=${key}", timeout: 1s, order: first, retry: {initial: 100ms}}}
  - id: many
    foreach: ["x", "y", "z", "${input.n}"]
    as: one
    max_parallel: 3
    steps:
      - {id: e, http: "POST http://w/do/e", body: {one: "${one}", at: "${index}"}, cost: 0.02 USD, timeout: 1s, in_doubt: fail, retry: {initial: 100ms, attempts: 3}, compensate: {http: "DELETE http://w/do/e?key=${key}", timeout: 1s, retry: {initial: 100ms}}}
      - {id: f, http: "POST http://w/do/f", when: index < 3, body: {e: "${steps.e.output?.id ?? 0}"}, timeout: 1s, retry: {initial: 100ms, attempts: 2}, compensate: {http: "DELETE http://w/do/f/${output.id}", timeout: 1s, order: last, retry: {initial: 100ms}}}
  - {id: no, when: input.n % 4 == 0, fail: "at the end"}
finally:
  - id: tell
    parallel:
      - {id: one, http: "PUT http://w/do/tell", body: {s: "${saga.status}"}, timeout: 1s, retry: 2, in_doubt: fail}
      - {id: two, http: "PUT http://w/do/tell", body: {s: "${saga.status}"}, timeout: 1s, retry: 2, in_doubt: fail}
`, `
saga: loops
input: {n: integer}
budget: {amount: 0.12 USD, on_exceed: ask}
steps:
  - id: some
    foreach: [1, 2, 3]
    max_parallel: 2
    on_item_error: collect
    steps:
      - {id: a, http: "POST http://w/do/a", body: {i: "${item}"}, cost: 0.02 USD, timeout: 1s, retry: {initial: 100ms, attempts: 2}, compensate: {http: "DELETE http://w/do/a/${output.id}", timeout: 1s, retry: {initial: 100ms}}}
      - id: inner
        parallel:
          - {id: b, http: "POST http://w/do/b", body: {a: "${steps.a.output.id}"}, timeout: 1s, in_doubt: ask, retry: {initial: 100ms, attempts: 2}, compensate: {http: "DELETE http://w/do/b/${output.id}", timeout: 1s, retry: {initial: 100ms}}}
          - {id: verify, http: "POST http://w/do/c", when: item != 2, body: {}, timeout: 1s, retry: {initial: 100ms, attempts: 2}, compensate: {http: "DELETE http://w/do/c?key=${key}", timeout: 1s, retry: {initial: 100ms}}}
    output: ${steps.a.output.id}
  - id: loop
    repeat: {until: "index >= input.n % 3", max: 3}
    steps:
      - {id: g, http: "POST http://w/do/g", body: {before: "${len(history)}"}, cost: 0.01 USD, timeout: 1s, retry: {initial: 100ms, attempts: 4}, compensate: {http: "DELETE http://w/do/g/${output.id}", timeout: 1s, retry: {initial: 100ms}}}
      - {id: nap, sleep: 1s}
  - {id: pay, http: "POST http://w/do/pay", body: {lost: "${len(steps.some.failed)}"}, timeout: 1s, in_doubt: ask, pivot: true}
  - id: after
    on_error: continue
    parallel:
      - {id: h, http: "POST http://w/do/h", body: {}, timeout: 1s, in_doubt: fail, retry: 2}
      - {id: k, http: "POST http://w/do/k", body: {}, timeout: 1s, retry: {initial: 100ms, attempts: 2}}
`, `
saga: worked
input: {n: integer}
timeout: 90s
steps:
  - {id: a, http: "POST http://w/do/a", body: {n: "${input.n}"}, timeout: 1s, retry: {initial: 100ms, attempts: 6}, compensate: {http: "DELETE http://w/do/a/${output.id}", timeout: 1s, retry: {initial: 100ms}}}
  - {id: pack, task: pack, input: {n: "${input.n}"}, heartbeat: 2s, timeout: 5s, retry: {initial: 100ms, attempts: 6}, compensate: {http: "DELETE http://w/do/pack/${output.id}", timeout: 1s, retry: {initial: 100ms}}}
  - {id: half, emit: order.packed, to: [log, bus], data: {id: "${steps.pack.output.id}"}}
  - {id: ship, task: ship, heartbeat: 1s, timeout: 4s, in_doubt: ask, retry: {initial: 100ms, attempts: 3}, compensate: {task: unship, input: {key: "${key}"}, heartbeat: 1s, timeout: 4s, retry: {initial: 100ms}}}
  - {id: bill, task: ship, heartbeat: 1s, timeout: 3s, in_doubt: fail, retry: {initial: 100ms, attempts: 2}, compensate: {http: "DELETE http://w/do/bill?key=${key}", timeout: 1s, order: first, retry: {initial: 100ms}}}
  - id: seal
    task: pack
    heartbeat: 1s
    timeout: 3s
    on_error: continue
    retry: {initial: 100ms, attempts: 3}
    in_doubt: {verify: {http: "GET http://w/status/seal?key=${key}", timeout: 1s, found: result.body.count > 0, output: {id: "${result.body.id}"}, after: 1s}, otherwise: ask}
    compensate: {http: "DELETE http://w/do/seal/${output.id}", timeout: 1s, retry: {initial: 100ms}}
  - {id: no, when: input.n % 3 == 0, fail: "at the end"}
finally:
  - {id: tell, emit: "order.${saga.status}", to: log}
  - {id: tidy, task: pack, heartbeat: 1s, timeout: 3s, in_doubt: fail, retry: 2}
`, `
saga: crowded
input: {n: integer}
steps:
  - {id: a, http: "POST http://w/do/a", body: {n: "${input.n}"}, timeout: 1s, retry: {initial: 100ms, attempts: 6}, compensate: {http: "DELETE http://w/do/a/${output.id}", timeout: 1s, retry: {initial: 100ms}}}
  - id: many
    foreach: [1, 2, 3, 4]
    max_parallel: 2
    on_item_error: collect
    steps:
      - {id: pack, task: pack, input: {i: "${item}"}, heartbeat: 1s, timeout: 4s, in_doubt: fail, retry: {initial: 100ms, attempts: 2}, compensate: {http: "DELETE http://w/do/pack?key=${key}", timeout: 1s, retry: {initial: 100ms}}}
      - {id: b, http: "POST http://w/do/b", body: {}, timeout: 1s, retry: {initial: 100ms, attempts: 2}, compensate: {http: "DELETE http://w/do/b/${output.id}", timeout: 1s, retry: {initial: 100ms}}}
      - {id: said, emit: item.done, to: [bus], data: {i: "${index}"}}
  - id: both
    on_error: continue
    parallel:
      - {id: rare, task: rare, heartbeat: 1s, timeout: 4s, retry: {initial: 100ms, attempts: 2}, compensate: {http: "DELETE http://w/do/rare/${output.id}", timeout: 1s, retry: {initial: 100ms}}}
      - {id: ok, approval: {title: "Go on with ${input.n}?", approvers: [ops, eve], show: {n: "${input.n}"}}, timeout: 12s}
      - {id: c, http: "POST http://w/do/c", body: {}, timeout: 1s, in_doubt: ask, retry: {initial: 100ms}, compensate: {http: "DELETE http://w/do/c?key=${key}", timeout: 1s, retry: {initial: 100ms}}}
      - {id: go, signal: go, timeout: 15s}
      - id: soon
        switch:
          - when: input.n % 4 == 1
            steps:
              - {id: nap, sleep: 1s}
              - {id: nope, fail: "a branch"}
  - id: race
    parallel:
      - {id: ship, task: ship, heartbeat: 1s, timeout: 4s, in_doubt: ask, retry: {initial: 100ms, attempts: 2}, compensate: {task: unship, input: {key: "${key}"}, heartbeat: 1s, timeout: 4s, retry: {initial: 100ms}}}
      - {id: rarer, task: rare, heartbeat: 1s, timeout: 4s, in_doubt: fail, retry: {initial: 100ms, attempts: 2}, compensate: {http: "DELETE http://w/do/rarer?key=${key}", timeout: 1s, retry: {initial: 100ms}}}
      - {id: d, http: "POST http://w/do/d", body: {}, timeout: 1s, retry: {initial: 100ms, attempts: 2}, compensate: {http: "DELETE http://w/do/d/${output.id}", timeout: 1s, retry: {initial: 100ms}}}
      - {id: never, when: input.n % 3 == 0, fail: "another branch"}
`, `
saga: approved
input: {n: integer}
steps:
  - {id: a, http: "POST http://w/do/a", body: {n: "${input.n}"}, timeout: 1s, retry: {initial: 100ms, attempts: 6}, compensate: {http: "DELETE http://w/do/a/${output.id}", timeout: 1s, retry: {initial: 100ms}}}
  - {id: ask, approval: {title: "Pay ${input.n}?", approvers: [ops], show: {a: "${steps.a.output.id}"}, form: {amount: "integer = 7"}}, four_eyes: true}
  - {id: go, signal: go}
  - {id: said, emit: order.approved, to: [log], data: {by: "${steps.ask.output.by}"}}
  - id: loop
    on_error: continue
    repeat: {until: "index >= 1", max: 3}
    steps:
      - {id: more, signal: go, timeout: 9s}
      - {id: b, http: "POST http://w/do/b", body: {}, timeout: 1s, retry: {initial: 100ms, attempts: 2}, compensate: {http: "DELETE http://w/do/b/${output.id}", timeout: 1s, retry: {initial: 100ms}}}
  - {id: vote, approval: {title: "Anything against it?", approvers: ["bob", "ann"]}, timeout: 5s, on_timeout: approve, on_error: continue}
  - {id: pay, http: "POST http://w/do/pay", body: {}, timeout: 1s, retry: {initial: 100ms, attempts: 4}, in_doubt: ask, pivot: true}
  - {id: late, approval: {title: "All well?", show: "${steps.pay.output.id}"}, timeout: 8s, on_timeout: reject}
finally:
  - {id: tell, emit: "approved.${saga.status}", to: [bus, log]}
`, `
saga: covered
input: {n: integer}
timeout: 150s
steps:
  - {id: a, http: "POST http://w/do/a", body: {n: "${input.n}"}, timeout: 1s, retry: {initial: 100ms, attempts: 6}, compensate: {http: "DELETE http://w/do/a/${output.id}", timeout: 1s, retry: {initial: 100ms}}}
  - {id: ok, approval: {title: "Pay ${input.n}?", approvers: [ops], covers: [b, c]}, timeout: 30s}
  - {id: nap, sleep: 2s}
  - {id: b, http: "POST http://w/do/b", body: {a: "${steps.a.output.id}", team: "${saga.labels?.team ?? '-'}"}, timeout: 1s, retry: {initial: 100ms, attempts: 2}, on_error: hold, hold_for: 6s, compensate: {http: "DELETE http://w/do/b/${output.id}", timeout: 1s, retry: {initial: 100ms}}}
  - {id: look, http: "GET http://w/look", timeout: 1s, retry: {initial: 100ms}}
  - {id: c, http: "POST http://w/do/c", when: input.n % 3 > 0, body: {team: "${saga.labels?.team ?? '-'}"}, timeout: 1s, in_doubt: ask, retry: {initial: 100ms}, compensate: {http: "DELETE http://w/do/c?key=${key}", timeout: 1s, retry: {initial: 100ms}}}
  - id: both
    parallel:
      - id: each
        foreach: [1, 2]
        max_parallel: 2
        steps:
          - {id: sure, approval: {title: "Ship ${item}?", show: "${saga.labels?.team ?? '-'}", covers: [ship, d]}, timeout: 15s, on_timeout: approve}
          - {id: ship, task: ship, input: {item: "${item}", team: "${saga.labels?.team ?? '-'}"}, heartbeat: 1s, timeout: 4s, in_doubt: ask, retry: {initial: 100ms, attempts: 2}, compensate: {task: unship, input: {key: "${key}"}, heartbeat: 1s, timeout: 4s, retry: {initial: 100ms}}}
          - {id: d, http: "POST http://w/do/d", body: {item: "${item}", team: "${saga.labels?.team ?? '-'}"}, timeout: 1s, retry: {initial: 100ms, attempts: 3}, compensate: {http: "DELETE http://w/do/d/${output.id}", timeout: 1s, retry: {initial: 100ms}}}
      - {id: e, http: "POST http://w/do/e", body: {}, timeout: 1s, retry: {initial: 100ms, attempts: 2}, compensate: {http: "DELETE http://w/do/e/${output.id}", timeout: 1s, retry: {initial: 100ms}}}
      - id: soon
        switch:
          - when: input.n % 5 == 2
            steps:
              - {id: rest, sleep: 6s}
              - {id: nope, fail: "a branch"}
  - {id: pay, http: "POST http://w/do/pay", body: {}, timeout: 1s, retry: {initial: 100ms, attempts: 4}, in_doubt: ask, pivot: true}
  - {id: late, approval: {title: "All well?", covers: [f]}, timeout: 20s}
  - {id: f, http: "POST http://w/do/f", body: {team: "${saga.labels?.team ?? '-'}"}, timeout: 1s, retry: {initial: 100ms, attempts: 2}}
`, `
saga: tooled
input: {n: integer}
timeout: 90s
steps:
  - {id: a, http: "POST http://w/do/a", body: {n: "${input.n}"}, timeout: 1s, retry: {initial: 100ms, attempts: 6}, compensate: {http: "DELETE http://w/do/a/${output.id}", timeout: 1s, retry: {initial: 100ms}}}
  - {id: b, mcp: {server: w, tool: plain, arguments: {n: "${input.n}"}}, timeout: 1s, retry: {initial: 100ms, attempts: 4}, compensate: {mcp: {server: w, tool: undo, arguments: {key: "${key}"}}, timeout: 1s, retry: {initial: 100ms}}}
  - id: both
    parallel:
      - {id: c, mcp: {server: w, tool: same}, timeout: 1s, retry: {initial: 100ms, attempts: 4}, compensate: {http: "DELETE http://w/do/same?key=${key}", timeout: 1s, retry: {initial: 100ms}}}
      - {id: d, mcp: {server: w, tool: plain}, timeout: 1s, in_doubt: retry, retry: {initial: 100ms, attempts: 4}, on_error: continue, compensate: {mcp: {server: w, tool: undo, arguments: {key: "${key}"}}, in_doubt: retry, timeout: 1s, retry: {initial: 100ms}}}
      - {id: look, mcp: {server: w, tool: look}, timeout: 1s, retry: {initial: 100ms}, compensate: none}
  - {id: e, mcp: {server: w, tool: plain}, timeout: 1s, in_doubt: {verify: {http: "GET http://w/status/plain?key=${key}", timeout: 1s, found: result.body.count > 0, output: {id: "${result.body.id}"}, after: 1s}, otherwise: ask}, retry: {initial: 100ms}, compensate: {http: "DELETE http://w/do/plain?key=${key}", timeout: 1s, retry: {initial: 100ms}}}
  - {id: no, when: input.n % 3 == 0, fail: "at the end"}
`, `
saga: fresh
input: {n: integer}
timeout: 150s
steps:
  - {id: a, http: "POST http://w/do/a", body: {n: "${input.n}"}, timeout: 1s, retry: {initial: 100ms, attempts: 6}, compensate: {http: "DELETE http://w/do/a/${output.id}", timeout: 1s, retry: {initial: 100ms}}}
  - {id: quote, http: "GET http://w/price/${input.n}", fresh_for: 5s, on_change: ask, timeout: 1s, retry: {initial: 100ms}}
  - {id: rate, http: "GET http://w/price/rate", fresh_for: 20s, timeout: 1s, on_error: hold, hold_for: 2s, retry: {initial: 100ms}}
  - {id: price, set: "${steps.quote.output.price}"}
  - {id: look, when: steps.price.output % 2 == 0, http: "GET http://w/look?price=${steps.price.output}", timeout: 1s, retry: {initial: 100ms}}
  - {id: dear, when: steps.price.output > 6, fail: "too dear"}
  - {id: ok, approval: {title: "Pay ${steps.price.output}?", approvers: [ops], covers: [b]}, timeout: 30s, on_timeout: approve}
  - {id: nap, sleep: 1s}
  - {id: b, http: "POST http://w/do/b", body: {price: "${steps.price.output}"}, timeout: 1s, retry: {initial: 100ms, attempts: 2}, on_error: hold, hold_for: 6s, compensate: {http: "DELETE http://w/do/b/${output.id}", timeout: 1s, retry: {initial: 100ms}}}
  - id: both
    parallel:
      - {id: c, http: "POST http://w/do/c", body: {rate: "${steps.rate.output.price}"}, timeout: 1s, retry: {initial: 100ms, attempts: 3}, compensate: {http: "DELETE http://w/do/c/${output.id}", timeout: 1s, retry: {initial: 100ms}}}
      - id: each
        foreach: [1, 2]
        steps:
          - {id: rest, sleep: 3s}
          - {id: ship, task: ship, input: {rate: "${steps.rate.output.price}"}, heartbeat: 1s, timeout: 4s, in_doubt: ask, retry: {initial: 100ms, attempts: 2}, compensate: {task: unship, input: {key: "${key}"}, heartbeat: 1s, timeout: 4s, retry: {initial: 100ms}}}
      - {id: e, http: "POST http://w/do/e", body: {}, timeout: 1s, retry: {initial: 100ms, attempts: 2}, compensate: {http: "DELETE http://w/do/e/${output.id}", timeout: 1s, retry: {initial: 100ms}}}
  - {id: said, emit: order.fresh, to: [log], data: {rate: "${steps.rate.output.price}"}}
  - {id: pay, http: "POST http://w/do/pay", body: {rate: "${steps.rate.output.price}"}, timeout: 1s, retry: {initial: 100ms, attempts: 4}, in_doubt: ask, pivot: true}
  - {id: f, http: "POST http://w/do/f", body: {rate: "${steps.rate.output.price}"}, timeout: 1s, retry: {initial: 100ms, attempts: 2}}
`, `
saga: family
input: {n: integer}
timeout: 120s
steps:
  - {id: a, http: "POST http://w/do/a", body: {n: "${input.n}"}, timeout: 1s, retry: {initial: 100ms, attempts: 6}, compensate: {http: "DELETE http://w/do/a/${output.id}", timeout: 1s, retry: {initial: 100ms}}}
  - id: both
    parallel:
      - {id: one, run: child, input: {n: "${input.n}"}}
      - {id: two, run: middle, input: {n: "${input.n + 1}"}}
      - {id: b, http: "POST http://w/do/b", body: {}, timeout: 1s, retry: {initial: 100ms, attempts: 2}, compensate: {http: "DELETE http://w/do/b/${output.id}", timeout: 1s, retry: {initial: 100ms}}}
      - id: soon
        switch:
          - when: input.n % 5 == 2
            steps:
              - {id: nap, sleep: 1s}
              - {id: nope, fail: "a branch"}
  - id: some
    foreach: [0, 3, "${input.n}"]
    max_parallel: 2
    on_item_error: collect
    steps:
      - {id: each, run: child, input: {n: "${item}"}}
  - {id: free, run: child, input: {n: 1}, compensate: none, on_error: continue}
  - {id: no, when: input.n % 3 == 0, fail: "at the end"}
`, `
saga: brief
input: {n: integer}
timeout: 60s
steps:
  - {id: kid, run: child, input: {n: "${input.n}"}, retry: {initial: 100ms, attempts: 1}, on_error: continue}
  - {id: a, http: "POST http://w/do/a", body: {}, timeout: 1s, retry: {initial: 100ms, attempts: 2}, on_error: continue, compensate: {http: "DELETE http://w/do/a?key=${key}", timeout: 1s, retry: {initial: 100ms}}}
  - {id: no, when: input.n % 3 == 2, fail: "at the end"}
finally:
  - {id: last, run: child, input: {n: "${input.n + 1}"}, retry: {initial: 100ms, attempts: 1}}
`, `
saga: middle
input: {n: integer}
steps:
  - {id: deep, run: child, input: {n: "${input.n}"}}
  - {id: x, http: "POST http://w/do/x", body: {}, timeout: 1s, retry: {initial: 100ms, attempts: 6}, pivot: true, compensate: {http: "DELETE http://w/do/x?key=${key}", timeout: 1s, retry: {initial: 100ms}}}
  - {id: go, when: input.n % 2 == 0, signal: go, timeout: 5s, on_error: continue}
finally:
  - {id: tell, emit: middle.ended, to: [log], data: {status: "${saga.status}"}}
`, `
saga: holding
input: {n: integer}
timeout: 200s
budget: {amount: 0.90 USD, tokens: 2000, on_exceed: ask}
steps:
  - {id: a, http: "POST http://w/do/a", body: {n: "${input.n}"}, cost: 0.05 USD, timeout: 1s, retry: {initial: 100ms, attempts: 6}, compensate: {http: "DELETE http://w/do/a/${output.id}", cost: 0.02 USD, timeout: 1s, retry: {initial: 100ms}}}
  - id: both
    parallel:
      - {id: one, run: firm, input: {n: "${input.n}"}, budget: 0.40 USD}
      - {id: two, run: shop, input: {n: "${input.n + 1}"}, budget: {amount: 0.12 USD, tokens: 900}}
      - {id: b, http: "POST http://w/do/b", body: {}, cost: 0.03 USD, timeout: 1s, retry: {initial: 100ms, attempts: 4}, compensate: {http: "DELETE http://w/do/b/${output.id}", timeout: 1s, retry: {initial: 100ms}}}
  - id: some
    foreach: [0, "${input.n}"]
    max_parallel: 2
    on_item_error: collect
    steps:
      - {id: each, run: shop, input: {n: "${item}"}}
  - {id: last, run: firm, input: {n: "${input.n}"}, on_error: continue}
`, `
saga: firm
input: {n: integer}
steps:
  - {id: deep, run: shop, input: {n: "${input.n}"}}
  - {id: x, http: "POST http://w/do/x", body: {}, cost: 0.02 USD, timeout: 1s, retry: {initial: 100ms, attempts: 6}, compensate: {http: "DELETE http://w/do/x?key=${key}", timeout: 1s, retry: {initial: 100ms}}}
  - {id: free, run: child, input: {n: "${input.n}"}, when: input.n % 3 == 0, budget: 0.01 USD, on_error: continue}
finally:
  - {id: tell, http: "POST http://w/do/tell", when: input.n % 2 == 0, body: {s: "${saga.status}"}, timeout: 1s, cost: 0.01 USD, in_doubt: ask, retry: 2}
`, `
saga: shop
input: {n: integer}
timeout: 60s
budget: {amount: 0.08 USD, on_exceed: ask}
steps:
  - {id: x, http: "POST http://w/do/x", body: {n: "${input.n}"}, cost: 0.02 USD, timeout: 1s, retry: {initial: 100ms, attempts: 6}, compensate: {http: "DELETE http://w/do/x/${output.id}", timeout: 1s, cost: 0.01 USD, retry: {initial: 100ms}}}
  - {id: y, task: pack, when: input.n % 2 == 1, cost: 0.03 USD, heartbeat: 1s, timeout: 4s, retry: {initial: 100ms, attempts: 3}, compensate: {task: unship, input: {key: "${key}"}, heartbeat: 1s, timeout: 4s, retry: {initial: 100ms}}}
  - {id: z, http: "POST http://w/do/z", body: {}, cost: 0.04 USD, timeout: 1s, retry: {initial: 100ms, attempts: 4}, compensate: {http: "DELETE http://w/do/z/${output.id}", timeout: 1s, retry: {initial: 100ms}}}
  - {id: no, when: input.n % 5 == 3, fail: "a shop"}
`, `
saga: late
input: {n: integer}
timeout: 200s
budget: 0.50 USD
steps:
  - {id: kid, run: clerk, input: {n: "${input.n}"}, budget: 0.40 USD, retry: {initial: 100ms, attempts: 1}, in_doubt: ask, on_error: continue}
  - {id: pay, http: "POST http://w/do/pay", body: {}, cost: 0.46 USD, timeout: 1s, retry: {initial: 100ms, attempts: 6}, compensate: {http: "DELETE http://w/do/pay/${output.id}", timeout: 1s, retry: {initial: 100ms}}}
`, `
saga: clerk
input: {n: integer}
timeout: 60s
budget: {amount: 0.03 USD, on_exceed: ask}
steps:
  - {id: x, http: "POST http://w/do/x", body: {}, cost: 0.01 USD, timeout: 1s, retry: {initial: 100ms, attempts: 3}, compensate: {http: "DELETE http://w/do/x/${output.id}", timeout: 1s, retry: {initial: 100ms}}}
finally:
  - {id: tell, http: "POST http://w/do/tell", body: {s: "${saga.status}"}, cost: 0.05 USD, timeout: 1s, retry: {initial: 100ms, attempts: 4}}
`, `
saga: child
input: {n: integer}
timeout: 60s
steps:
  - {id: x, http: "POST http://w/do/x", body: {n: "${input.n}"}, timeout: 1s, retry: {initial: 100ms, attempts: 6}, compensate: {http: "DELETE http://w/do/x/${output.id}", timeout: 1s, retry: {initial: 100ms}}}
  - {id: y, task: pack, when: input.n % 2 == 1, heartbeat: 1s, timeout: 4s, retry: {initial: 100ms, attempts: 3}, compensate: {task: unship, input: {key: "${key}"}, heartbeat: 1s, timeout: 4s, retry: {initial: 100ms}}}
  - {id: no, when: input.n % 4 == 3, fail: "a child"}
output: {x: "${steps.x.output.id}"}
`}

// definitions are compiled once, so that simulations can share them.
var definitions = compile(sources)

func compile(sources []string) map[string]*saga.Definition {
	defs := make(map[string]*saga.Definition)
	for _, src := range sources {
		def, errs := dsl.Parse("sim", []byte(src), dsl.Options{Kinds: kinds.All()})
		if errs != nil {
			panic(errs)
		}
		if def.Name == "child" || def.Name == "middle" {
			def.Retention = retention // shorter than a definition may set
		}
		undoLater(def)
		defs[def.Name] = def
	}
	maps.Copy(defs, agentDefinitions)
	return defs
}

// names are the definitions that clients start.
var names = []string{"by-id", "by-key", "verified", "asked", "odd", "nested", "money", "doubts", "wide", "loops",
	"worked", "crowded", "approved", "family", "brief", "held", "covered", "tooled", "fresh", "holding", "late"}

// load schedules the starts of clients and the commands of people.
func (s *sim) load(sc Script) {
	s.result.Sagas = len(sc.Starts)
	for i, st := range sc.Starts {
		s.after(millis(st.At), func() { s.start(i, st) })
	}
	for i, start := range sc.Agents {
		s.after(millis(start.At), func() { s.open(i, start) })
	}
	for _, o := range sc.Commands {
		s.after(millis(o.At), func() { s.interfere(o) })
	}
}

// start asks a node to start a saga, under a client's key. A client that gets no response asks
// again, under the same key.
func (s *sim) start(i int, st Start) {
	def := s.defs[st.Definition]
	data, _, wrong := machine.Begin(def, machine.StartOptions{Version: 1, Input: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i)), Actor: client.name})
	if wrong != nil {
		panic(fmt.Sprint(wrong))
	}
	s.ask(fmt.Sprint("client-", i), def, data, func(uuid.UUID) {})
}

// ask asks nodes to start a saga under a key until it exists, and calls then once.
func (s *sim) ask(key string, def *saga.Definition, data saga.StartedData, then func(uuid.UUID)) {
	if head, err := s.store.SagaByKey(ctx, key); err == nil {
		then(head.ID)
		return
	}
	n := s.nodes[s.rng.IntN(len(s.nodes))]
	start := journal.Start{Definition: def.Name, Version: 1, SHA256: def.SHA256, Key: key, CreatedAt: s.now}
	n.later(0, func() {
		if !n.leaves {
			id := s.id()
			n.tell(id, engine.StartSaga{ID: id, Def: def, Start: start, Data: data, Reply: key})
		}
	})
	s.after(s.between(time.Second, 3*time.Second), func() { s.ask(key, def, data, then) })
}
