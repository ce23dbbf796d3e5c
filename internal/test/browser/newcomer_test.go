package browser

import (
	"testing"

	"recourse/internal/test/chrome"
)

// A new user finds out why a saga was undone and what it cost, resolves a step in doubt, and
// approves a refund: with the mouse, and with the keyboard alone.
func TestNewcomer(t *testing.T) {
	for name, database := range databases {
		for _, way := range []string{"mouse", "keyboard"} {
			t.Run(name+"/"+way, func(t *testing.T) {
				t.Parallel()
				d := newDemo(t, database(t))
				w := chrome.Open(t, chrome.Look{})
				var h hands = mouse{w}
				if way == "keyboard" {
					h = keyboard{w, t}
				}
				w.Go(d.url)
				newcomer(t, d, w, h)
			})
		}
	}
}

func newcomer(t *testing.T, d *demo, w *chrome.Window, h hands) {
	undone, doubtful, asking := d.saga("refund-claim", "compensated"), d.saga("order-return", "stuck"), d.saga("refund-claim", "waiting")
	w.Sees("Sagas", "refund-claim", "compensated", "stuck")

	// Why was it undone, and what did it cost?
	h.Use("↺ compensated")
	h.Write("Definition", "refund-claim")
	h.Use("Filter")
	h.Use(short(undone.ID))
	w.Sees("refund", "the card has expired", "label", undone.Cost.Spent+" USD")
	w.Fits()

	// The step is in doubt: send it again with the same key.
	h.Use("Inbox")
	w.Sees("It is unknown whether step refund has happened", "Refund 39.90 USD for order A-2003?")
	h.Use("Resolve refund")
	h.Pick("retry")
	h.Write("Reason", "the provider honours keys")
	h.Use("Resolve the step")
	d.ends(doubtful.ID)
	w.Lacks("It is unknown whether step refund has happened")

	// A refund needs an approval.
	h.Write("Comment", "the switch is known to get hot")
	h.Use("Approve")
	d.ends(asking.ID)
	w.Sees("Inbox is empty")
}
