package world

import (
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

var serviceNames = []string{"air", "hotels", "pay", "stock", "shipping", "ship", "mail", "orders", "search", "cms", "things"}

const (
	defaultPrice = "129.90" // price of a flight
	nightPrice   = 8950     // price of a night in a hotel, in cents
	maxNights    = 365
)

var (
	bookings = &collection{service: "air", path: "bookings", prefix: "bk", create: "book", cancel: "cancel",
		undoAt: "DELETE", made: "booked", undone: "cancelled", keyName: "client_ref", list: "items",
		needs: []string{"route"}, fill: priced}
	reservations = &collection{service: "hotels", path: "reservations", prefix: "rs", create: "reserve", cancel: "cancel",
		undoAt: "POST cancel", made: "reserved", undone: "cancelled", inBody: "client_token", fill: totalled}
	charges = &collection{service: "pay", path: "charges", prefix: "ch", create: "charge", cancel: "refund_charge",
		undoAt: "POST refund", made: "charged", undone: "refunded", keyName: "idempotency_key", list: "data",
		needs: []string{"amount"}, fill: amounting}
	refunds = &collection{service: "pay", path: "refunds", prefix: "re", create: "refund", cancel: "cancel_refund",
		undoAt: "POST cancel", made: "refunded", undone: "cancelled", keyName: "idempotency_key", list: "data",
		needs: []string{"order", "amount"}, fill: amounting}
	returns = &collection{service: "stock", path: "expected-returns", prefix: "er", create: "expect", cancel: "forget",
		undoAt: "DELETE", made: "expected", undone: "forgotten"}
	labels = &collection{service: "shipping", path: "labels", prefix: "lb", create: "label", cancel: "void",
		undoAt: "POST void", made: "valid", undone: "void", fill: linked}
	shipments = &collection{service: "ship", path: "orders", prefix: "sh", create: "order", cancel: "cancel",
		undoAt: "POST cancel", made: "ordered", undone: "cancelled"}
	pages = &collection{service: "cms", path: "pages", prefix: "pg", create: "publish", cancel: "unpublish",
		undoAt: "DELETE", made: "published", undone: "unpublished", needs: []string{"title"}, fill: published}
	messages = &collection{service: "mail", path: "send", prefix: "ml", made: "accepted"}
	things   = &collection{service: "things", prefix: "th", made: "present", undone: "deleted"}
)

// allOperations lists the operations of the world.
func allOperations() []*operation {
	var ops []*operation
	for _, k := range []*collection{bookings, reservations, charges, refunds, returns, labels, shipments, pages} {
		ops = append(ops, k.operations()...)
	}
	for _, base := range []string{"/things", "/things/things"} {
		ops = append(ops, thingOperations(base)...)
	}
	return append(ops,
		&operation{service: "pay", name: "undo_charge", pattern: "DELETE /pay/charges", write: true, run: charges.undoByKey},
		&operation{service: "mail", name: "send", pattern: "POST /mail/send", write: true, ignoresKeys: true, run: sendMail},
		&operation{service: "orders", name: "returnable", pattern: "GET /orders/orders/{id}/returnable", run: returnable},
		&operation{service: "search", name: "search", pattern: "GET /search/v1/search", run: search},
	)
}

// unknown returns an operation for an unknown path, for the ledger.
func unknown(path string) *operation {
	service, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if !slices.Contains(serviceNames, service) {
		service = ""
	}
	return &operation{service: service, name: "unknown", run: func(_ *state, c *call) answer {
		return problem(http.StatusNotFound, "no such operation",
			"nothing answers "+c.method+" "+c.path+": the package comment of examples/world lists what does")
	}}
}

// priced adds the price of a booking.
func priced(f fields) error {
	if _, ok := f["price"]; !ok {
		f["price"] = json.RawMessage(defaultPrice)
	}
	return f.amount("price")
}

// totalled adds the total of a reservation: that of the request, or the price of its nights.
func totalled(f fields) error {
	if _, ok := f["total"]; ok {
		return f.amount("total")
	}
	nights := 1
	if raw, ok := f["nights"]; ok {
		if err := json.Unmarshal(raw, &nights); err != nil || nights < 1 || nights > maxNights {
			return fmt.Errorf("%w: field \"nights\" must be a whole number from 1 to %d", errBody, maxNights)
		}
	}
	f["total"] = json.RawMessage(big.NewRat(int64(nights)*nightPrice, 100).FloatString(2))
	return nil
}

func amounting(f fields) error { return f.amount("amount") }

// linked adds the URL of a label. It is derived from the order, because the id is not known yet.
func linked(f fields) error {
	var order string
	if json.Unmarshal(f["order"], &order) != nil {
		order = "parcel"
	}
	f.text("url", "https://carrier.example/labels/"+url.PathEscape(order)+".pdf")
	return nil
}

// sendMail sends another mail each time: this provider ignores keys.
func sendMail(s *state, c *call) answer {
	f, err := c.object()
	if err == nil {
		err = f.needs("to")
	}
	if err != nil {
		return badBody(err)
	}
	s.made(c, messages, "", f)
	return reply(http.StatusAccepted, f)
}

// returnable reports whether an order can be sent back.
func returnable(_ *state, c *call) answer {
	return reply(http.StatusOK, map[string]any{
		"order": c.id, "sku": c.query.Get("sku"), "returnable": !strings.HasPrefix(c.id, "final-"),
	})
}

// published adds the URL of a page, which is derived from its title.
func published(f fields) error {
	var title string
	if json.Unmarshal(f["title"], &title) != nil {
		return fmt.Errorf("%w: field \"title\" must be a text", errBody)
	}
	f.text("url", "https://cms.example/"+url.PathEscape(title))
	return nil
}

// hits is the number of pages that a search finds. The first is the same for every query.
const hits = 4

// search finds pages; the same query finds the same pages.
func search(_ *state, c *call) answer {
	q := c.query.Get("q")
	if q == "" {
		return problem(http.StatusBadRequest, "nothing to search for", "say what: ?q=WORDS")
	}
	urls := []string{"https://site.example/home"}
	for i := 1; i < hits; i++ {
		urls = append(urls, fmt.Sprintf("https://site.example/%s/%d", url.PathEscape(q), i))
	}
	return reply(http.StatusOK, map[string]any{"query": q, "urls": urls})
}
