package expr

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func identity(s string) string { return s }

func jsonQuote(s string) string { return string(appendEscaped(nil, s)) }

func reveal(name string) (string, error) { return "<" + name + `"` + "${secrets.PAY_KEY}>", nil }

func refuse(name string) (string, error) { return "", errors.New("must not be asked for " + name) }

func TestUnseal(t *testing.T) {
	cases := []struct{ sealed, want string }{
		{``, ``},
		{`plain $ $$ {} $}`, `plain $ $$ {} $}`},
		{`$${x}`, `${x}`},
		{`$$${x}`, `$${x}`},
		{`${x}`, `${x}`},
		{`${secrets.}`, `${secrets.}`},
		{`${secrets.A-B}`, `${secrets.A-B}`},
		{`${secrets.A`, `${secrets.A`},
		{`$${secrets.PAY_KEY}`, `${secrets.PAY_KEY}`},
		{`a ${secrets.A} b`, `a <A"${secrets.PAY_KEY}> b`},
		{`${secrets.A}${secrets.B}`, `<A"${secrets.PAY_KEY}><B"${secrets.PAY_KEY}>`},
	}
	for _, c := range cases {
		if got, err := Unseal(c.sealed, reveal, identity); err != nil || got != c.want {
			t.Errorf("Unseal(%q) = %q, %v; want %q", c.sealed, got, err, c.want)
		}
	}
	if _, err := Unseal(`${secrets.A}`, refuse, identity); err == nil || !strings.Contains(err.Error(), "secrets.A") {
		t.Errorf("Unseal with a failing resolve: %v, want an error that names the secret", err)
	}
}

func TestSealedNames(t *testing.T) {
	got := SealedNames(`${secrets.B} $${secrets.C} ${secrets.A}${secrets.B}`)
	if diff := cmp.Diff([]string{"B", "A"}, got); diff != "" {
		t.Errorf("SealedNames (-want +got):\n%s", diff)
	}
}

func TestUnsealedTreeIsTheValue(t *testing.T) {
	sealed, err := tree(t).SealedJSON(sample())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"PAY_KEY"}, SealedNames(string(sealed))); diff != "" {
		t.Errorf("SealedNames (-want +got):\n%s", diff)
	}
	open, err := Unseal(string(sealed), reveal, jsonQuote)
	want := `{"z":{"z":1,"a":[1,2,3],"m":"<&>"},"lit":{"n":1.10,"t":"${secrets.PAY_KEY}"},"auth":"Bearer <PAY_KEY\"${secrets.PAY_KEY}>",` +
		`"key ${secrets.PAY_KEY}":[19.10,null,"xit's ${secrets.PAY_KEY} $"]}`
	if err != nil || open != want {
		t.Errorf("Unseal = %s, %v\nwant %s", open, err, want)
	}
	if !json.Valid([]byte(open)) {
		t.Error("what is unsealed is not JSON")
	}
}

// hostile draws text rich in what sealing must not confuse.
func hostile() *rapid.Generator[string] {
	piece := rapid.OneOf(rapid.SampledFrom([]string{"$", "{", "}", "${", "$${", "${secrets.PAY_KEY}", "secrets.", `"`, `\`, "\n"}), rapid.String())
	return rapid.Map(rapid.SliceOfN(piece, 0, 8), func(p []string) string { return strings.ToValidUTF8(strings.Join(p, ""), "?") })
}

func TestDataNeverForgesASecret(t *testing.T) {
	tpl, mixed, secret := mustText(t, `${input}`), mustText(t, `a${input}b${vars}`), mustText(t, `${input}|${secrets.PAY_KEY}|${vars}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := hostile().Draw(t, "a"), hostile().Draw(t, "b")
		env := MapEnv{"input": a, "vars": b}
		roundTrip(t, tpl, env, a)
		roundTrip(t, mixed, env, "a"+a+"b"+b)
		sealed, err := secret.SealedText(env)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Unseal(sealed, func(string) (string, error) { return "S", nil }, identity)
		if want := a + "|S|" + b; err != nil || got != want {
			t.Fatalf("Unseal(%q) = %q, %v; want %q", sealed, got, err, want)
		}
	})
}

func roundTrip(t *rapid.T, tpl *Template, env Env, want string) {
	sealed, err := tpl.SealedText(env)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Unseal(sealed, refuse, identity); err != nil || got != want {
		t.Fatalf("Unseal(%q) = %q, %v; want %q", sealed, got, err, want)
	}
	plain, err := tpl.JSON(env)
	if err != nil {
		t.Fatal(err)
	}
	sealedJSON, err := tpl.SealedJSON(env)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Unseal(string(sealedJSON), refuse, jsonQuote); err != nil || got != string(plain) {
		t.Fatalf("Unseal(%q) = %q, %v; want %q", sealedJSON, got, err, plain)
	}
}
