package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"recourse/api"
	"recourse/internal/intake"
)

// Limits are the `limits` of the config file for requests to the server.
type Limits struct {
	Intake intake.Config
	Rates  api.Rates
}

// limitsFile is the YAML form of `limits`.
type limitsFile struct {
	BodyTime string              `json:"body-time"`
	Unknown  int                 `json:"unknown-connections"`
	Requests rateFile            `json:"requests"`
	Keys     map[string]rateFile `json:"keys"`
}

// rateFile is a token bucket.
type rateFile struct {
	PerSecond float64 `json:"per-second"`
	Burst     int     `json:"burst"`
}

// ReadLimits reads `limits` from the config file; zero if absent.
func ReadLimits(path string) (Limits, error) {
	raw, err := section(path, "limits")
	if err != nil || raw == nil {
		return Limits{}, err
	}
	bad := func(format string, args ...any) (Limits, error) {
		return Limits{}, fmt.Errorf("%w %s: limits: %s; write such as {body-time: 10s, unknown-connections: 1000, requests: {per-second: 50, burst: 100}, keys: {crm: {per-second: 5}}}",
			ErrFile, path, fmt.Sprintf(format, args...))
	}
	var f limitsFile
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return bad("%v", err)
	}
	l := Limits{Intake: intake.Config{Unknown: f.Unknown}, Rates: api.Rates{Names: make(map[string]api.Rate)}}
	if f.BodyTime != "" {
		if l.Intake.Read, err = time.ParseDuration(f.BodyTime); err != nil || l.Intake.Read < time.Second {
			return bad("body-time is at least 1s")
		}
	}
	if f.Unknown < 0 {
		return bad("unknown-connections is at least 1")
	}
	if l.Rates.Each, err = f.Requests.rate(); err != nil {
		return bad("requests: %v", err)
	}
	for name, r := range f.Keys { // any order
		if l.Rates.Names[name], err = r.rate(); err != nil {
			return bad("keys: %s: %v", name, err)
		}
	}
	return l, nil
}

// leastRate is the minimum of per-second: about one request a day. The interval of a much smaller
// rate would overflow a time.Duration.
const leastRate = 0.00001

func (r rateFile) rate() (api.Rate, error) {
	switch {
	case r == rateFile{}:
		return api.Rate{}, nil
	case r.PerSecond < leastRate || r.Burst < 0:
		return api.Rate{}, fmt.Errorf("write per-second as a number of at least %.5f, and burst, if you want to give it, as at least 1; {} stands for no limit", leastRate)
	}
	burst := r.Burst
	if burst == 0 {
		burst = int(math.Ceil(r.PerSecond))
	}
	return api.Rate{Every: time.Duration(float64(time.Second) / r.PerSecond), Burst: burst}, nil
}
