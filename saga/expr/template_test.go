package expr

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// outcome is what a rendering gave, or "<code>".
func outcome(got string, err error) string {
	if e, ok := errors.AsType[*EvalError](err); ok {
		return "<" + e.Code + ">"
	}
	if err != nil {
		return err.Error()
	}
	return got
}

func TestScalarTemplates(t *testing.T) {
	cases := []struct{ src, json, text, sealed string }{
		{``, `""`, ``, ``},
		{`plain`, `"plain"`, `plain`, `plain`},
		{`${input.amount}`, `19.10`, `19.10`, `19.10`},
		{`${input.big}`, `9007199254740993`, `9007199254740993`, `9007199254740993`},
		{`${input.huge}`, `1e400`, `1e400`, `1e400`},
		{`${input.name}`, `"Ada"`, `Ada`, `Ada`},
		{`${input.yes}`, `true`, `true`, `true`},
		{`${input.nil}`, `null`, `<not_text>`, `<not_text>`},
		{`${input.order}`, `{"z":1,"a":[1,2,3],"m":"<&>"}`, `<not_text>`, `<not_text>`},
		{`${input.order.a}`, `[1,2,3]`, `<not_text>`, `<not_text>`},
		{`${input}!`, `<not_text>`, `<not_text>`, `<not_text>`},
		{`Hi ${input.name}, ${input.amount}!`, `"Hi Ada, 19.10!"`, `Hi Ada, 19.10!`, `Hi Ada, 19.10!`},
		{`${input.name}${input.name}`, `"AdaAda"`, `AdaAda`, `AdaAda`},
		{`x ${input.nil}`, `<not_text>`, `<not_text>`, `<not_text>`},
		{`x ${json(input.order)}`, `"x {\"z\":1,\"a\":[1,2,3],\"m\":\"<&>\"}"`, `x {"z":1,"a":[1,2,3],"m":"<&>"}`, `x {"z":1,"a":[1,2,3],"m":"<&>"}`},
		{`$${input.name}`, `"${input.name}"`, `${input.name}`, `$${input.name}`},
		{`cost $5 $ $$ {x} $}`, `"cost $5 $ $$ {x} $}"`, `cost $5 $ $$ {x} $}`, `cost $5 $ $$ {x} $}`},
		{`$$${input.name}`, `"$${input.name}"`, `$${input.name}`, `$$${input.name}`},
		{`${ {"a": "}"} }`, `{"a":"}"}`, `<not_text>`, `<not_text>`},
		{`${ {"a": '}"\''} ["a"] }`, `"}\"'"`, `}"'`, `}"'`},
		{"${ `}` /* } */ }", `"}"`, `}`, `}`},
		{"${ 1 // }\n }", `1`, `1`, `1`},
		{`${secrets.PAY_KEY}`, `<secret_in_plain>`, `<secret_in_plain>`, `${secrets.PAY_KEY}`},
		{`Bearer ${secrets.PAY_KEY}`, `<secret_in_plain>`, `<secret_in_plain>`, `Bearer ${secrets.PAY_KEY}`},
		{`${secrets.PAY_KEY}${secrets.MAIL_KEY}`, `<secret_in_plain>`, `<secret_in_plain>`, `${secrets.PAY_KEY}${secrets.MAIL_KEY}`},
		{`$ ${secrets.PAY_KEY}`, `<secret_in_plain>`, `<secret_in_plain>`, `$ ${secrets.PAY_KEY}`},
		{`${"$"}${secrets.PAY_KEY}`, `<dollar_before_secret>`, `<dollar_before_secret>`, `<dollar_before_secret>`},
		{`${input.text}${""}${secrets.PAY_KEY}`, `<dollar_before_secret>`, `<dollar_before_secret>`, `<dollar_before_secret>`},
		{`${input.text}`, `"it's ${secrets.PAY_KEY} $"`, `it's ${secrets.PAY_KEY} $`, `it's $${secrets.PAY_KEY} $`},
		{`${input.nope}`, `<missing_field>`, `<missing_field>`, `<missing_field>`},
	}
	for _, c := range cases {
		t.Run(c.src, func(t *testing.T) {
			tpl := mustText(t, c.src)
			raw, err := tpl.JSON(sample())
			if got := outcome(string(raw), err); got != c.json {
				t.Errorf("JSON = %s, want %s", got, c.json)
			}
			text, err := tpl.Text(sample())
			if got := outcome(text, err); got != c.text {
				t.Errorf("Text = %s, want %s", got, c.text)
			}
			sealed, err := tpl.SealedText(sample())
			if got := outcome(sealed, err); got != c.sealed {
				t.Errorf("SealedText = %s, want %s", got, c.sealed)
			}
		})
	}
}

func TestTemplateErrors(t *testing.T) {
	cases := []struct {
		src  string
		want []string
	}{
		{`ab ${input.x`, []string{"3 expr_syntax"}},
		{`${ "}" `, []string{"0 expr_syntax"}},
		{`${}`, []string{"2 expr_syntax"}},
		{`é ${foo} ${ bar }`, []string{"5 unknown_root", "13 unknown_root"}},
		{`${secrets.PAY_KEY + "x"}`, []string{"2 secret_in_expression"}},
		{`${secrets.PAY_KEY ?? "x"}`, []string{"2 secret_in_expression"}},
		{`${secrets.PAY_KEY[0]}`, []string{"2 secret_in_expression"}},
		{`${secrets.PAY_KEY[0:1]}`, []string{"2 secret_in_expression"}},
		{`${sha256(secrets.PAY_KEY)}`, []string{"9 secret_in_expression"}},
		{`${let x = secrets.PAY_KEY; x}`, []string{"10 secret_in_expression"}},
		{`${true ? secrets.PAY_KEY : ""}`, []string{"9 secret_in_expression"}},
		{`${secrets.NOPE}`, []string{"2 unknown_secret"}},
		{"\xff", []string{"0 expr_syntax"}},
	}
	for _, c := range cases {
		tpl, errs := ParseText(c.src, sampleCheck())
		if diff := cmp.Diff(c.want, brief(errs)); diff != "" || tpl != nil {
			t.Errorf("ParseText(%q) (-want +got):\n%s", c.src, diff)
		}
	}
	for _, ok := range []string{`${secrets["PAY_KEY"]}`, `${ (secrets.PAY_KEY) }`, `a ${secrets.PAY_KEY} b`} {
		if _, errs := ParseText(ok, sampleCheck()); errs != nil {
			t.Errorf("ParseText(%q) = %v, want none", ok, errs[0])
		}
	}
}

// tree is a template of every form.
func tree(tb testing.TB) *Template {
	return Map([]Field{
		{"z", mustText(tb, `${input.order}`)},
		{"lit", Const(json.RawMessage(`{"n": 1.10, "t": "${secrets.PAY_KEY}"}`))},
		{"auth", mustText(tb, `Bearer ${secrets.PAY_KEY}`)},
		{"key ${secrets.PAY_KEY}", List([]*Template{mustText(tb, `${input.amount}`), nil, mustText(tb, `x${input.text}`)})},
	})
}

func TestTree(t *testing.T) {
	tpl := tree(t)
	got, err := tpl.SealedJSON(sample())
	want := `{"z":{"z":1,"a":[1,2,3],"m":"<&>"},"lit":{"n":1.10,"t":"$${secrets.PAY_KEY}"},"auth":"Bearer ${secrets.PAY_KEY}",` +
		`"key $${secrets.PAY_KEY}":[19.10,null,"xit's $${secrets.PAY_KEY} $"]}`
	if err != nil || string(got) != want {
		t.Fatalf("SealedJSON = %s, %v\nwant %s", got, err, want)
	}
	if _, err := tpl.JSON(sample()); outcome("", err) != "<secret_in_plain>" {
		t.Errorf("JSON: %v, want secret_in_plain", err)
	}
	if _, err := tpl.Value(sample()); outcome("", err) != "<secret_in_plain>" {
		t.Errorf("Value: %v, want secret_in_plain", err)
	}
	if _, err := tpl.Text(sample()); outcome("", err) != "<not_text>" {
		t.Errorf("Text: %v, want not_text", err)
	}
	wantRefs := []Ref{{"input", []string{"order"}}, {"secrets", []string{"PAY_KEY"}}, {"input", []string{"amount"}}, {"input", []string{"text"}}}
	if diff := cmp.Diff(wantRefs, tpl.Refs()); diff != "" {
		t.Errorf("Refs (-want +got):\n%s", diff)
	}
	if tpl.IsConst() || tpl.Parts() != nil {
		t.Errorf("IsConst %v, Parts %v; want false, nil", tpl.IsConst(), tpl.Parts())
	}
}

func TestValueDecodesAll(t *testing.T) {
	tpl := List([]*Template{mustText(t, `${input.order}`), Const(json.RawMessage(`[1.10]`)), mustText(t, `a$${b`), nil, {}})
	got, err := tpl.Value(sample())
	want := []any{
		map[string]any{"z": json.Number("1"), "a": []any{json.Number("1"), json.Number("2"), json.Number("3")}, "m": "<&>"},
		[]any{json.Number("1.10")}, "a${b", nil, nil,
	}
	if diff := cmp.Diff(any(want), got); diff != "" || err != nil {
		t.Errorf("Value: %v (-want +got):\n%s", err, diff)
	}
	if _, err := Const(json.RawMessage(`{`)).Value(nil); outcome("", err) != "<bad_value>" {
		t.Errorf("a broken constant: %v, want bad_value", err)
	}
}

func TestParts(t *testing.T) {
	parts := mustText(t, `https://${vars.pay}/x?$${y}`).Parts()
	if len(parts) != 3 || parts[0].Text != "https://" || parts[1].Program.Source() != "vars.pay" || parts[2].Text != "/x?${y}" {
		t.Errorf("Parts = %+v", parts)
	}
	if got := mustText(t, `plain`); !got.IsConst() || len(got.Parts()) != 1 {
		t.Errorf("plain text: IsConst %v, Parts %v", got.IsConst(), got.Parts())
	}
}

func TestBrokenDataIsAnError(t *testing.T) {
	for _, raw := range []string{``, `{`, `{"a":tru}`, `{"a" 1}`, `{"a":}`, `[1`, "{\"a\":\"\xff\"}", `{"a":1]`, `{a:1}`, `{"a":1,}`, `nul`} {
		for _, src := range []string{`${input}`, `${input.a + 1}`, `x ${input.a}`, `${len(input)}`} {
			tpl := mustText(t, src)
			if raw == `{"a":tru}` && src == `${len(input)}` {
				continue // what is not looked at is not judged
			}
			if got, err := tpl.JSON(MapEnv{"input": Raw(raw)}); err == nil && !json.Valid(got) {
				t.Errorf("%s of %q gave %q", src, raw, got)
			}
		}
		if _, err := mustText(t, `${input}`).JSON(MapEnv{"input": Raw(raw)}); outcome("", err) != "<bad_value>" {
			t.Errorf("a bare path to %q: %v, want bad_value", raw, err)
		}
	}
	for _, v := range []any{json.Number("01"), json.Number("NaN"), json.Number(""), 1.5, []any{1.5}, "\xff", map[string]any{"\xff": 1}} {
		if _, err := mustText(t, `${input}`).JSON(MapEnv{"input": v}); outcome("", err) != "<bad_value>" {
			t.Errorf("%#v: %v, want bad_value", v, err)
		}
	}
}
