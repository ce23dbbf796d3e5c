package idempotency

import "testing"

func TestFingerprint(t *testing.T) {
	base := Fingerprint("POST", "/v1/sagas", []byte(`{"a":1.0,"b":[1,"é<"]}`))
	if len(base) != 22 {
		t.Fatalf("fingerprint %q", base)
	}
	for _, same := range []string{`{"b":[1,"é<"],"a":1.0}`, "{ \"a\": 1.0,\n\"b\": [1, \"\\u00e9\\u003c\"] }\n"} {
		if got := Fingerprint("POST", "/v1/sagas", []byte(same)); got != base {
			t.Errorf("%s is another request", same)
		}
	}
	for _, other := range []string{`{"a":1,"b":[1,"é<"]}`, `{"a":1.0,"b":["é<",1]}`, `{"a":1.0}`, `{"a":1.0,"b":[1,"é<"]} {}`, ``} {
		if got := Fingerprint("POST", "/v1/sagas", []byte(other)); got == base {
			t.Errorf("%s is the same request", other)
		}
	}
	body := []byte(`{"a":1.0,"b":[1,"é<"]}`)
	if Fingerprint("PUT", "/v1/sagas", body) == base || Fingerprint("POST", "/v1/saga", body) == base {
		t.Error("method and path make no difference")
	}
	if Fingerprint("POST", "/x", []byte("saga: a")) == Fingerprint("POST", "/x", []byte("saga:  a")) {
		t.Error("a body that is not JSON counts by its bytes")
	}
}
