package dsl_test

import (
	"strings"
	"testing"
	"time"

	"recourse/saga"
	"recourse/saga/dsl"
)

func TestTriggers(t *testing.T) {
	list := everything(t).Triggers
	if len(list) != 2 || list[0].Event != "com.shop.order.*" || list[1].Event != "" || list[1].Cron.CatchUp != saga.CatchAll || list[1].Cron.Zone.String() != "Europe/Berlin" {
		t.Fatalf("%+v", list)
	}
	e := &saga.Event{ID: "1", Source: "/shop", Type: "com.shop.order.paid", Time: "2026-03-01T08:00:00Z", Data: []byte(`{"id":9007199254740993,"total":100.01}`)}
	for _, tt := range []struct {
		trigger *saga.Trigger
		want    string
	}{{list[0], `{"order":9007199254740993,"tags":[],"customer":{"name":"shop","mail":"me@shop.example"},"price":1}`},
		{list[1], `{"order":"2026-03-01T08:00:00Z","tags":["daily"],"customer":{"name":"shop","mail":"me@shop.example"},"price":1}`}} {
		if yes, err := tt.trigger.Wants(e); err != nil || !yes {
			t.Errorf("if: %v, %v", yes, err)
		}
		if input, err := tt.trigger.Begin(e); err != nil || string(input) != tt.want {
			t.Errorf("input: %s, %v, want %s", input, err, tt.want)
		}
	}
	e.Data = []byte(`{"total":1}`)
	if yes, err := list[0].Wants(e); err != nil || yes {
		t.Errorf("if: %v, %v", yes, err)
	}
	if _, err := list[0].Begin(e); err == nil {
		t.Error("a missing field gives no error")
	}
	plain := mustParse(t, "saga: x\ntriggers: [{event: a}]\nsteps:\n  - {id: a, set: 1}\n").Triggers[0]
	if input, err := plain.Begin(e); err != nil || string(input) != `{"total":1}` {
		t.Errorf("the default input is %s, %v", input, err)
	}
}

// At the change to summer time a time that there is not is passed over; in autumn one that comes
// twice comes twice.
func TestCronAcrossTimeChanges(t *testing.T) {
	for _, tt := range []struct{ cron, zone, from, want string }{
		{"30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-30T00:30:00Z 2026-03-31T00:30:00Z"},
		{"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z 2026-10-25T01:30:00Z 2026-10-26T01:30:00Z"},
		{"0 9 * * 1-5", "Europe/Berlin", "2026-03-27T12:00:00Z", "2026-03-30T07:00:00Z 2026-03-31T07:00:00Z"},
		{"0 * * * *", "Europe/Berlin", "2026-03-28T23:30:00Z", "2026-03-29T00:00:00Z 2026-03-29T01:00:00Z"},
		{"0 * * * *", "Europe/Berlin", "2026-10-24T23:30:00Z", "2026-10-25T00:00:00Z 2026-10-25T01:00:00Z 2026-10-25T02:00:00Z"},
		{"*/30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T00:00:00Z 2026-10-25T00:30:00Z 2026-10-25T01:00:00Z 2026-10-25T01:30:00Z 2026-10-26T01:00:00Z"},
		{"0 3 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T02:00:00Z 2026-10-26T02:00:00Z"},
		{"30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z", "2026-11-01T05:30:00Z 2026-11-01T06:30:00Z 2026-11-02T06:30:00Z"},
		{"30 2,3 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:30:00Z 2026-03-30T00:30:00Z 2026-03-30T01:30:00Z"},
		{"0 0 * * *", "Africa/Cairo", "2026-04-23T12:00:00Z", "2026-04-24T21:00:00Z 2026-04-25T21:00:00Z"},
		{"54 1 * * *", "Australia/Lord_Howe", "2026-10-02T22:00:00Z", "2026-10-03T15:24:00Z 2026-10-04T14:54:00Z"},
		{"0 9 * * 0-4", "Africa/Cairo", "2026-04-23T12:00:00Z", "2026-04-26T06:00:00Z 2026-04-27T06:00:00Z"},
		{"0 9 * * 1-6", "America/Santiago", "2026-09-05T16:00:00Z", "2026-09-07T12:00:00Z"},
		{"0 9 * * 1-6", "Atlantic/Azores", "2026-03-28T16:00:00Z", "2026-03-30T09:00:00Z"},
		{"0 9 * * *", "Australia/Lord_Howe", "2026-10-02T23:00:00Z", "2026-10-03T22:00:00Z 2026-10-04T22:00:00Z"},
		{"0 9 * * *", "Australia/Lord_Howe", "2026-04-03T23:00:00Z", "2026-04-04T22:30:00Z 2026-04-05T22:30:00Z"},
		{"0 2 * * *", "Australia/Lord_Howe", "2026-10-02T16:00:00Z", "2026-10-04T15:00:00Z"},
		{"0 1 * * *", "Africa/Cairo", "2026-04-23T12:00:00Z", "2026-04-23T22:00:00Z 2026-04-24T22:00:00Z"},
		{"0 12 1 * 7", "UTC", "2026-02-27T12:00:00Z", "2026-03-01T12:00:00Z 2026-03-08T12:00:00Z"},
		{"30 2 * * *", "UTC", "2026-03-28T12:00:00Z", "2026-03-29T02:30:00Z 2026-03-30T02:30:00Z"},
		{"@monthly", "UTC", "2026-01-31T12:00:00Z", "2026-02-01T00:00:00Z 2026-03-01T00:00:00Z"},
		{"0 0 29 2 *", "UTC", "2026-01-31T12:00:00Z", "2028-02-29T00:00:00Z"},
	} {
		def := mustParse(t, "saga: x\ntriggers: [{cron: \""+tt.cron+"\", timezone: "+tt.zone+"}]\nsteps:\n  - {id: a, set: 1}\n")
		at, err := time.Parse(time.RFC3339, tt.from)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for range strings.FieldsSeq(tt.want) {
			at = def.Triggers[0].Cron.Next(at)
			got = append(got, at.Format(time.RFC3339))
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s in %s: %v, want %s", tt.cron, tt.zone, got, tt.want)
		}
	}
}

func TestMatchEvent(t *testing.T) {
	for _, tt := range []struct {
		pattern, kind string
		want          bool
	}{
		{"a.b", "a.b", true}, {"a.b", "a.b.c", false}, {"a.*", "a.b", true}, {"a.*", "a.b.c", true}, {"a.*", "a", false}, {"a.*", "a.", false}, {"a.*", "ab.c", false}, {"a*", "a*", true}, {"a*", "ab", false},
	} {
		if got := saga.MatchEvent(tt.pattern, tt.kind); got != tt.want {
			t.Errorf("%s on %s: %v", tt.pattern, tt.kind, got)
		}
	}
}

func FuzzCron(f *testing.F) {
	for _, s := range []string{"0 9 * * 1-5", "@daily", "*/7 1,2 ? JAN-MAR MON", "60 * * * *", "1/0 * * * *", "TZ=", "@every 1s", "0-59/100 * * * *", "* * * * 7"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.ContainsAny(text, "\"\\$\n\r") || len(text) > 200 {
			return
		}
		def, errs := dsl.Parse("t", []byte("saga: x\ntriggers: [{cron: \""+text+"\"}]\nsteps:\n  - {id: a, set: 1}\n"), options())
		if errs == nil && def.Triggers[0].Cron.Next(time.Unix(0, 0)).IsZero() {
			t.Errorf("%q never comes", text)
		}
	})
}

// A field with a default need not be given, whichever part of the schema requires it.
func TestInputWithDefaults(t *testing.T) {
	for _, rules := range []string{"required: [id]", "allOf: [{required: [id]}]", "$ref: '#/$defs/x', $defs: {x: {required: [id]}}"} {
		src := "saga: x\ninput_schema: {" + rules + ", properties: {id: {type: string, default: none}}}\ntriggers: [{cron: 0 9 * * *, input: {note: \"${event.time}\"}}]\nsteps: [{id: a, set: 1}]\n"
		if _, errs := dsl.Parse("x", []byte(src), options()); errs != nil {
			t.Errorf("%s: %v", rules, errs)
		}
	}
}

// A field that only one alternative of a schema requires need not be given.
func TestInputOfOneAlternative(t *testing.T) {
	for _, other := range []string{"{not: {required: [mail]}}", "{}", "{type: object}", "{required: [mail]}"} {
		src := "saga: x\ninput_schema: {anyOf: [{required: [id]}, " + other + "]}\ntriggers: [{cron: 0 9 * * *, input: {note: \"${event.time}\"}}]\nsteps: [{id: a, set: 1}]\n"
		if _, errs := dsl.Parse("x", []byte(src), options()); errs != nil {
			t.Errorf("%s: %v", other, errs)
		}
	}
}
