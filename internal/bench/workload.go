package bench

import "fmt"

// Variant is a way in which booking3 ends.
type Variant string

// The variants.
const (
	Succeeds Variant = "succeeds" // three effects
	Undone   Variant = "undone"   // the third is refused, two are undone
)

// Name is the definition's name.
func (v Variant) Name() string { return "booking3-" + string(v) }

// Ends is the status in which its sagas end.
func (v Variant) Ends() string {
	if v == Undone {
		return "compensated"
	}
	return "succeeded"
}

// Calls is how many requests a saga makes.
func (v Variant) Calls() int {
	if v == Undone {
		return 5
	}
	return 3
}

// Definition is the saga, with the other side at url.
func (v Variant) Definition(url string) string {
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
	return "saga: " + v.Name() + "\ninput: {trip: string}\nsteps:\n" +
		fmt.Sprintf(step, "flight", url+"/do/flight", "seat", url) +
		fmt.Sprintf(step, "hotel", url+"/do/hotel", "room", url) +
		fmt.Sprintf(step, "car", third, "car", url)
}

// Check compares the other side's ledger with the number of sagas that ended.
func (v Variant) Check(l Ledger, sagas int) error {
	want := Ledger{Requests: 3 * sagas, Effects: 3 * sagas}
	if v == Undone {
		want = Ledger{Requests: 5 * sagas, Effects: 2 * sagas, Undone: 2 * sagas, Refused: sagas}
	}
	if l != want {
		return fmt.Errorf("the other side's ledger is %+v, and should be %+v after %d sagas", l, want, sagas)
	}
	return nil
}
