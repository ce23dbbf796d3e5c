package measure

import (
	"fmt"
	"strings"
)

// Variant is a saga that is compared with the floor.
type Variant string

// The variants; the first two are those of booking3.
const (
	Succeeds Variant = "succeeds" // three effects
	Undone   Variant = "undone"   // the third is refused, two are undone
	Wide     Variant = "wide"     // fifty effects, one after another
	Start    Variant = "start"    // no effect: it sleeps at once, and only its start is measured
)

// wideSteps is the number of steps of a wide saga.
const wideSteps = 50

// Name is the definition's name.
func (v Variant) Name() string {
	if v == Wide || v == Start {
		return string(v)
	}
	return "booking3-" + string(v)
}

// Ends returns the status of its sagas in the response to their starts.
func (v Variant) Ends() string {
	switch v {
	case Undone:
		return "compensated"
	case Start:
		return "waiting"
	}
	return "succeeded"
}

// Definition returns the definition, with the remote service at url.
func (v Variant) Definition(url string) string {
	head := "saga: " + v.Name() + "\ninput: {trip: string}\nsteps:\n"
	switch v {
	case Wide:
		return head + posts(url, 1, wideSteps, `    body: {trip: "${input.trip}", item: seat}`+"\n")
	case Start:
		return head + "  - {id: pause, sleep: 1h}\n"
	}
	third := url + "/do/car"
	if v == Undone {
		third = url + "/refuse"
	}
	step := `  - id: %s
    http: POST %s
    body: {trip: "${input.trip}", item: %s}
    in_doubt: retry
    compensate: {http: "DELETE %s/do/%[1]s/${output.id}"}
`
	return head +
		fmt.Sprintf(step, "flight", url+"/do/flight", "seat", url) +
		fmt.Sprintf(step, "hotel", url+"/do/hotel", "room", url) +
		fmt.Sprintf(step, "car", third, "car", url)
}

// seat is a body: a POST without a body would use a connection of its own.
const seat = "    body: {item: seat}\n"

// posts returns the steps s<first> to s<last>, each with one POST. more is the rest of each step.
func posts(url string, first, last int, more string) string {
	var b strings.Builder
	for i := first; i <= last; i++ {
		fmt.Fprintf(&b, "  - id: s%d\n    http: POST %s/do/s%[1]d\n%[3]s", i, url, more)
	}
	return b.String()
}

// Check compares the remote service's ledger with the number of sagas that were started.
func (v Variant) Check(l Ledger, sagas int) error {
	var want Ledger
	switch v {
	case Succeeds:
		want = Ledger{Requests: 3 * sagas, Effects: 3 * sagas}
	case Undone:
		want = Ledger{Requests: 5 * sagas, Effects: 2 * sagas, Undone: 2 * sagas, Refused: sagas}
	case Wide:
		want = Ledger{Requests: wideSteps * sagas, Effects: wideSteps * sagas}
	}
	if l != want {
		return fmt.Errorf("the remote service's ledger is %+v, want %+v after %d sagas", l, want, sagas)
	}
	return nil
}
