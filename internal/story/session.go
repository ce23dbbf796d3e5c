package story

import (
	"fmt"

	"recourse/saga"
	"recourse/saga/history"
)

// lifeEnds are the lines of a session's timers.
var lifeEnds = map[string]struct {
	mark, text string
	tone       Tone
}{
	saga.TimerLease:  {"✗", "the agent's process has sent no heartbeat, and its lease has ended", Doubt},
	saga.TimerDetach: {"·", "the agent's process has detached", Plain},
	saga.TimerLost:   {"✗", "no process of the agent has come back in time", Bad},
}

func (t *Teller) attached(d *saga.AttachedData) []Line {
	who := "a process of the agent"
	if d.Holder != "" {
		who = d.Holder
	}
	if d.Life == t.life {
		return t.one("☞", "", who+" attaches again", Strong)
	}
	t.life = d.Life
	return t.one("☞", "", fmt.Sprintf("%s attaches, and begins life %d", who, d.Life), Strong)
}

func (t *Teller) called(e *history.Event, d *saga.CalledData) []Line {
	if d.What == saga.OwnStep {
		return t.begun(e, d)
	}
	if d.What == saga.ModelAsk {
		return t.asked(e, d)
	}
	text := "the agent calls " + d.Action
	if len(d.Input) > 0 && string(d.Input) != "null" {
		text += " with " + Short(string(d.Input), 90)
	}
	if d.N > 0 {
		text += ", once more"
	}
	if d.Resembles != "" {
		return t.one("…", e.Path, text+", which may repeat "+d.Resembles+" — needs a person (inbox)", Doubt)
	}
	return t.one("·", e.Path, text, Plain)
}

// asked describes a request to a language model.
func (t *Teller) asked(e *history.Event, d *saga.CalledData) []Line {
	if d.Diverged == nil {
		return t.one("·", e.Path, "the agent asks a model", Plain)
	}
	text := "the agent asks a model, and differs from " + d.Diverged.From + " of an earlier life"
	if d.Diverged.Pointer != "" {
		text += " at " + Short(d.Diverged.Pointer, 90)
	}
	return t.one("·", e.Path, text, Doubt)
}

// begun describes the begin of a step that the agent does itself.
func (t *Teller) begun(e *history.Event, d *saga.CalledData) []Line {
	if d.N > 0 {
		return t.one("·", e.Path, "the agent begins it again", Plain)
	}
	text := "the agent begins a step of its own"
	if len(d.Input) > 0 && string(d.Input) != "null" {
		text += " with " + Short(string(d.Input), 90)
	}
	return t.one("·", e.Path, text, Plain)
}
