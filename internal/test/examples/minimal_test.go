package examples

import "recourse/examples/world"

// minimal uses https://pay.example and https://ship.example; --resolve directs them to the mock
// services.
var minimal = []play{
	{name: "plain", example: "minimal", status: "succeeded", effect: map[string]int{"pay charge": 1, "ship order": 1}},
	{name: "nothing can be shipped", example: "minimal", faults: []world.Rule{onPath("/orders", 0, status(422))},
		status: "compensated", reason: "step_failed ship http_422"},
	{name: "lost answers, 503, 429", example: "minimal", faults: []world.Rule{
		onPath("/charges", 1, world.Do{After: world.FaultDrop}),
		onPath("/charges", 1, world.Do{Before: world.FaultStatus, Status: 429, RetryAfter: "1"}),
		onPath("/orders", 1, status(503)),
		onPath("/orders", 1, world.Do{After: world.FaultCut}),
	}, status: "succeeded", effect: map[string]int{"pay charge": 1, "ship order": 1}},
	{name: "the refund is cut off", example: "minimal", faults: []world.Rule{
		onPath("/orders", 0, status(400)),
		{Match: world.Match{Method: "POST", PathPrefix: "/charges/"}, Times: 2, Do: world.Do{After: world.FaultReset}},
	}, status: "compensated", reason: "step_failed ship http_400"},
}
