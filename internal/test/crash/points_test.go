package crash

// point is a place in the program where it can be struck.
type point struct {
	name  string
	fails bool              // it can return an error
	calm  bool              // no other node may be killed on the way there
	only  string            // the one action; "": all that suit it
	lead  func(c *campaign) // brings a node to a point that the load alone does not reach
}

// commits are the kinds of writes: each has a point before and one after it.
var commits = []string{"started", "intent.do", "intent.undo", "outcome.do", "outcome.undo", "woke", "decided", "skipped",
	"compensating", "operator", "cancelled", "paused", "resumed", "finished", "parked"}

// common are the points on all databases.
func common() []point {
	var list []point
	for _, kind := range commits {
		list = append(list, point{name: "commit.before." + kind, fails: true}, point{name: "commit.after." + kind, fails: true})
	}
	for _, way := range []string{"do", "undo", "verify"} {
		list = append(list, point{name: "send.before." + way, fails: true}, point{name: "send.after." + way, fails: true})
	}
	for _, name := range []string{"claim.before", "records.before", "mail.before", "mail.after", "claim.committed", "post.before", "post.after", "renew.before", "renew.after"} {
		list = append(list, point{name: name, fails: true})
	}
	for _, name := range []string{"claim.after", "load.after", "start.reply", "request.begun", "request.kept"} {
		list = append(list, point{name: name})
	}
	return append(list,
		point{name: "register.before", fails: true, lead: killOne}, point{name: "register.after", fails: true, lead: killOne},
		point{name: "release.before", fails: true, calm: true, lead: stopOne}, point{name: "release.after", fails: true, calm: true, lead: stopOne},
		point{name: "drain", calm: true, lead: stopOne})
}

// ofPostgres are those of one database only: within its transactions, and where nodes take over
// from each other.
func ofPostgres() []point {
	return []point{{name: "tx.sent"}, {name: "claim.locked"}, {name: "append.sorted", lead: loseAnAnswer},
		{name: "takeover.fenced", lead: killOne}, {name: "reregister", lead: freezeOne}}
}

func ofSQLite() []point {
	return []point{{name: "tx.written", fails: true}, {name: "tx.committed", fails: true}}
}

// actions are what is done at a point, in turn.
func (p point) actions(freeze bool) []string {
	switch {
	case p.only != "":
		return []string{p.only}
	case p.fails && freeze:
		return []string{"kill", "error", "stop", "error", "kill", "error"}
	case p.fails:
		return []string{"kill", "error"}
	case freeze:
		return []string{"kill", "stop", "kill", "kill"}
	}
	return []string{"kill"}
}
