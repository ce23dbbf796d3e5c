package expr

import (
	"fmt"
	"strconv"
	"strings"
)

// Misfit is a place where a value does not fit the type of what takes it.
type Misfit struct {
	Pointer string // into the value, as RFC 6901 writes it
	Detail  string // what is wrong, and what would be right
}

// maxFits bounds the comparisons of one value: the parts of two schemas may be shared.
const maxFits = 2000

// Misfits lists the places where the template's value is not of type want, or where a schema allows
// that it is not. A value of which nothing is known fits everywhere.
func (t *Template) Misfits(want *Type) []Misfit {
	f := fitter{left: maxFits}
	f.template(t, want.present(), "")
	return f.found
}

type fitter struct {
	left  int
	found []Misfit
}

func (f *fitter) bad(at, format string, args ...any) {
	f.found = append(f.found, Misfit{Pointer: at, Detail: fmt.Sprintf(format, args...)})
}

// template compares what is written out part by part, so that each part is judged at its own place.
func (f *fitter) template(t *Template, want *Type, at string) {
	switch {
	case t == nil:
		f.value("", Exactly(KindNull), want, at)
	case t.form == formMap && want.kinds&KindObject != 0:
		given := make(map[string]bool, len(t.fields))
		for _, field := range t.fields {
			given[field.Name] = true
			if w, ok := f.wanted(want, field.Name, at); ok {
				f.template(field.Value, w, at+"/"+escapeToken(field.Name))
			}
		}
		for _, name := range want.names() {
			if want.fields[name].kinds&KindAbsent == 0 && !given[name] {
				f.bad(at+"/"+escapeToken(name), "%q is missing", name)
			}
		}
	case t.form == formList && want.kinds&KindList != 0:
		for i, item := range t.items {
			f.template(item, want.items.present(), at+"/"+strconv.Itoa(i))
		}
	default:
		what := ""
		if p := t.single(); p != nil {
			what = describe(p.root)
		}
		f.value(what, t.Type(), want, at)
	}
}

// wanted is the type of a field that is given. It reports a field that the wanted object does not
// have.
func (f *fitter) wanted(want *Type, name, at string) (*Type, bool) {
	w := want.field(name)
	if w.kinds != KindAbsent {
		return w.present(), true
	}
	names, hint := want.names(), ""
	if near := nearest(name, names); near != "" {
		hint = fmt.Sprintf("; did you mean %q?", near)
	} else if len(names) > 0 {
		hint = ", only " + quotedNames(names)
	}
	f.bad(at+"/"+escapeToken(name), "there is no field %q%s", clip(name), hint)
	return nil, false
}

// value compares types. what names the value, "" if it has no name.
func (f *fitter) value(what string, typ, want *Type, at string) {
	if f.left--; f.left < 0 || want == anyType || want == anyField {
		return
	}
	if !typ.fits(want.kinds) {
		accepted := want.kinds & KindAny
		f.bad(at, "%s", misfitDetail(what, typ, accepted, accepted.phrase()+" is needed"))
		return
	}
	if want.kinds&typ.kinds&KindList != 0 {
		f.value(what+"[…]", typ.Item().present(), want.items.present(), at)
	}
	if want.kinds&typ.kinds&KindObject == 0 || typ.lookup != nil {
		return
	}
	for _, name := range want.names() {
		if want.fields[name].kinds&KindAbsent != 0 {
			continue
		}
		switch given := typ.field(name); {
		case given.kinds == KindAbsent:
			f.bad(at+"/"+escapeToken(name), "%q is missing", name)
		case given.chanceOf(KindAbsent) == surely:
			f.bad(at+"/"+escapeToken(name), "%q is needed, and %s may be absent: give each field by itself, with ?? where it may be absent", name, dotted(what, name))
		}
	}
	for _, name := range typ.names() {
		given := typ.fields[name]
		if _, sure := given.Kinds(); sure&KindAny == 0 {
			continue
		}
		if w, ok := f.wanted(want, name, at); ok {
			f.value(dotted(what, name), given.present(), w, at)
		}
	}
}

func dotted(what, name string) string { return strings.TrimPrefix(what+"."+name, ".") }

// escapeToken writes a name as a part of a JSON pointer (RFC 6901 §3).
func escapeToken(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}
