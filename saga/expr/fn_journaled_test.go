package expr

import (
	"fmt"
	"math/big"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// fixedRandom is an environment with the same random bytes for each call.
type fixedRandom struct {
	MapEnv
	bytes [16]byte
}

func (fixedRandom) Now() string           { return "" }
func (d fixedRandom) Random(int) [16]byte { return d.bytes }

func TestJournaled(t *testing.T) {
	env := kept{sample()}
	for src, want := range map[string]string{
		`now()`:                                  `"2026-11-22T08:30:00.000Z"`,
		`now() == now()`:                         `true`,
		`uuid() == uuid()`:                       `false`,
		`uniq(map(1..50, uuid())) | len()`:       `50`,
		`let x = uuid(); x == x`:                 `true`,
		`let x = random(6); 0 <= x < 6`:          `true`,
		`type(random(6))`:                        `"number"`,
		`random(1)`:                              `0`,
		`random(1.0) + random(1e0)`:              `0`,
		`random(9007199254740992) > 0`:           `true`,
		`random(0)`:                              `<bad_value>`,
		`random(-1)`:                             `<bad_value>`,
		`random(9007199254740993)`:               `<bad_value>`,
		`random(1e30)`:                           `<bad_value>`,
		`random(1e99999)`:                        `<number_too_large>`,
		`random(1.5)`:                            `<wrong_type>`,
		`random("6")`:                            `<wrong_type>`,
		`random()`:                               `<wrong_arguments>`,
		`now(1)`:                                 `<wrong_arguments>`,
		`uuid(4)`:                                `<wrong_arguments>`,
		`0 < random(6) < 3`:                      `<unsupported>`, // it would be called twice
		`"a" < uuid() + "" < "z"`:                `<unsupported>`,
		`"2" < now() < "3"`:                      `true`,
		`map(1..100000, random(2))`:              `<out_of_fuel>`,
		`all(map(1..500, random(3)), # in 0..2)`: `true`,
	} {
		if got := evalJSON(t, src, env); got != want {
			t.Errorf("%s = %s, want %s", src, got, want)
		}
	}
	for _, src := range []string{`now()`, `uuid()`, `random(2)`} {
		if got := evalJSON(t, src, sample()); got != `<not_available>` {
			t.Errorf("%s without a time and random bytes = %s", src, got)
		}
	}
}

// Each uuid() of a rendering is another one, whatever the shape; a repeated rendering gives the
// same.
func TestRandomOfATemplate(t *testing.T) {
	one := mustText(t, `${uuid()}`)
	tpl := Map([]Field{{"a", one}, {"b", List([]*Template{one, mustText(t, `x${uuid()}${uuid()}`)})}})
	render := func() string {
		raw, err := tpl.JSON(kept{})
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	out := render()
	ids := regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`).FindAllString(out, -1)
	seen := make(map[string]bool)
	for _, id := range ids {
		seen[id] = true
	}
	if len(ids) != 4 || len(seen) != 4 {
		t.Errorf("%s: want four different UUIDs of version 8", out)
	}
	if d := cmp.Diff(out, render()); d != "" {
		t.Errorf("the same rendering differs: %s", d)
	}
}

func TestUUIDKeepsTheRandomBytes(t *testing.T) {
	var zero, ones [16]byte
	for i := range ones {
		ones[i] = 0xff
	}
	for want, b := range map[string][16]byte{
		`"00000000-0000-8000-8000-000000000000"`: zero,
		`"ffffffff-ffff-8fff-bfff-ffffffffffff"`: ones,
	} {
		if got := evalJSON(t, `uuid()`, fixedRandom{bytes: b}); got != want {
			t.Errorf("uuid() of %x = %s, want %s", b, got, want)
		}
	}
}

// random(n) is the random bytes, as a number of 128 bits, modulo n.
func TestRandomIsTheRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "bytes"))
		n := rapid.Int64Range(1, maxRandom).Draw(t, "n")
		want := new(big.Int).Mod(new(big.Int).SetBytes(b[:]), big.NewInt(n))
		p, errs := Compile(fmt.Sprintf("random(%d)", n), &Check{Journaled: true})
		if errs != nil {
			t.Fatal(errs)
		}
		if got, err := p.Eval(fixedRandom{bytes: b}); err != nil || fmt.Sprint(got) != want.String() {
			t.Fatalf("random(%d) of %x = %v, %v; want %v", n, b, got, err, want)
		}
	})
}
