package expr

import (
	"fmt"
	"strconv"
	"strings"
)

// Misfit is a place where a value does not have the type that its recipient requires.
type Misfit struct {
	Pointer string // into the value, as in RFC 6901
	Detail  string // the error, and how to fix it
}

// maxFits limits the comparisons for one value, because schemas may share parts.
const maxFits = 2000

// Misfits lists the places where the template's value does not have type want, or where its schema
// does not ensure that it does. A value of unknown type fits everywhere.
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

// template compares written-out values part by part, so that each error has its own place.
func (f *fitter) template(t *Template, want *Type, at string) {
	switch {
	case t == nil:
		f.value("", Exactly(KindNull), want, at)
	case t.form == formMap && want.kinds&KindObject != 0:
		given := make(map[string]bool, len(t.fields))
		for _, field := range t.fields {
			given[field.Name] = true
			if w, ok := f.wanted(want, field.Name, at); ok {
				f.template(field.Value, w, at+"/"+PointerToken(field.Name))
			}
		}
		for _, name := range want.names() {
			if want.fields[name].kinds&KindAbsent == 0 && !given[name] {
				f.bad(at+"/"+PointerToken(name), "%q is missing", name)
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

// wanted returns the required type of a field. It reports a field that the required object does not
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
	f.bad(at+"/"+PointerToken(name), "there is no field %q%s", clip(name), hint)
	return nil, false
}

// value compares types. what is the name of the value, "" if it has none.
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
			f.bad(at+"/"+PointerToken(name), "%q is missing", name)
		case given.likelihoodOf(KindAbsent) == surely:
			f.bad(at+"/"+PointerToken(name), "%q is needed, and %s may be absent: give each field by itself, with ?? where it may be absent", name, dotted(what, name))
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

var (
	pointerEscapes   = strings.NewReplacer("~", "~0", "/", "~1")
	pointerUnescapes = strings.NewReplacer("~1", "/", "~0", "~")
)

// PointerToken writes a name as a part of a JSON pointer (RFC 6901 §3).
func PointerToken(name string) string { return pointerEscapes.Replace(name) }

// TokenName returns the name that a part of a JSON pointer stands for.
func TokenName(token string) string { return pointerUnescapes.Replace(token) }
