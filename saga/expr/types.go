package expr

import (
	"maps"
	"slices"
	"strings"
)

// Kinds is a set of the types that a value may have. A number is a KindInteger or a KindFraction:
// the first counts and indexes, and 1.0 is one. KindAbsent is a field that is not there.
type Kinds uint16

// The kinds, and the sets that operators and functions take.
const (
	KindNull Kinds = 1 << iota
	KindBool
	KindInteger
	KindFraction
	KindString
	KindList
	KindObject
	KindAbsent

	KindNumber = KindInteger | KindFraction
	KindScalar = KindBool | KindNumber | KindString // what can stand in text
	KindAny    = KindNull | KindScalar | KindList | KindObject
)

// Type is what is known of a value before there is one. It is immutable.
//
// A type is a set of kinds. Those that a schema declares, or that an expression surely may give,
// are sure: a place that does not take one of them is an error. The others are unsure: nobody has
// said that they occur, so a place is an error only if it takes none of the kinds there are. A
// value of which nothing is known may be anything, all of it unsure, so it is refused nowhere.
type Type struct {
	kinds, unsure Kinds
	items         *Type            // of a list
	mixed         bool             // the items of a list are of different types, each at its place
	fields        map[string]*Type // of an object
	rest          *Type            // the fields of an object that fields does not have; nil: it has no more
	lookup        func(name string) *Type
}

var (
	anyType    = openType(KindAny)
	anyField   = openType(KindAny | KindAbsent)
	absentType = &Type{kinds: KindAbsent}
	noType     = &Type{} // of the items of an empty list
)

// openType is a type of which only the kinds are known.
func openType(kinds Kinds) *Type {
	t := &Type{kinds: kinds, unsure: kinds}
	t.items, t.rest = t, t
	return t
}

// Any is the type of a value of which nothing is known.
func Any() *Type { return anyType }

// Never is the type of what there is no value of.
func Never() *Type { return noType }

// Exactly is the type of a value that may be of each of the kinds; of what is in it nothing is
// known.
func Exactly(kinds Kinds) *Type { return &Type{kinds: kinds, items: anyType, rest: anyField} }

// Items is the type of a list.
func Items(items *Type) *Type { return &Type{kinds: KindList, items: items, rest: anyField} }

// Fields is the type of an object. rest is the type of the fields besides; nil: there are none.
func Fields(fields map[string]*Type, rest *Type) *Type {
	return &Type{kinds: KindObject, items: anyType, fields: fields, rest: rest}
}

// Lookup is the type of an object whose fields are asked for one by one; nil is any.
func Lookup(field func(name string) *Type) *Type {
	return &Type{kinds: KindObject, items: anyType, rest: anyField, lookup: field}
}

// Item is what is known of an item of a list, whichever it is.
func (t *Type) Item() *Type {
	if t.mixed {
		return t.items.Doubted()
	}
	return t.items
}

// Kinds are the kinds that the value may be of; sure are those of them that are declared.
func (t *Type) Kinds() (all, sure Kinds) { return t.kinds, t.kinds &^ t.unsure }

// With is t or one of some more kinds, of which nothing else is known.
func (t *Type) With(kinds Kinds, sure bool) *Type {
	out := *t
	if sure {
		out.unsure &^= kinds
	} else {
		out.unsure |= kinds &^ t.kinds
	}
	out.kinds |= kinds
	return &out
}

// Only is t when it is known that the value is one of the kinds. The result is any if the kinds
// contradict t: no value gets there.
func (t *Type) Only(kinds Kinds) *Type {
	if t.kinds&^kinds == 0 {
		return t
	}
	if t.kinds&kinds == 0 {
		return anyType
	}
	out := *t
	out.kinds, out.unsure = t.kinds&kinds, t.unsure&kinds
	return &out
}

// OfItems is t where lists have these items.
func (t *Type) OfItems(items *Type) *Type {
	out := *t
	out.items = items
	return &out
}

// OfFields is t where objects have these fields, see [Fields].
func (t *Type) OfFields(fields map[string]*Type, rest *Type) *Type {
	out := *t
	out.fields, out.rest = fields, rest
	return &out
}

// Doubted is t with nothing sure.
func (t *Type) Doubted() *Type {
	out := *t
	out.unsure = t.kinds
	return &out
}

// present is t for a field that is there.
func (t *Type) present() *Type { return t.Only(KindAny) }

// field is the type of a field of an object of type t, KindAbsent among its kinds if it may be
// missing.
func (t *Type) field(name string) *Type {
	if t.lookup != nil {
		if f := t.lookup(name); f != nil {
			return f
		}
		return anyField
	}
	if f, ok := t.fields[name]; ok {
		return f
	}
	if t.rest == nil {
		return absentType
	}
	return t.rest
}

// names are the declared fields, sorted.
func (t *Type) names() []string { return slices.Sorted(maps.Keys(t.fields)) }

// fits reports whether a value of type t can stand where one of the kinds is needed.
func (t *Type) fits(want Kinds) bool {
	return t.kinds&want != 0 && t.kinds&^t.unsure&^want == 0 || t.kinds == 0
}

// kindNames are the words for kinds, as type() gives them, in the order in which they are listed.
var kindNames = []struct {
	kinds Kinds
	name  string
}{{KindString, "string"}, {KindNumber, "number"}, {KindBool, "bool"}, {KindList, "list"}, {KindObject, "object"}, {KindNull, "null"}}

// String lists the kinds: "string or null".
func (k Kinds) String() string {
	if k&KindAny == KindAny {
		return "any"
	}
	var names []string
	for _, one := range kindNames {
		switch {
		case k&one.kinds == 0:
		case k&one.kinds == KindInteger:
			names = append(names, "integer")
		default:
			names = append(names, one.name)
		}
	}
	return strings.Join(names, " or ")
}

// maxUnion bounds the types that are looked into to join two: schemas share parts, and may hold
// many.
const maxUnion = 500

// Union is the type of a value that is either of type a or of type b. Where doubted, the reader may
// know which of them it is by other means: what only one of them may be is unsure.
func Union(a, b *Type, doubted bool) *Type {
	j := joiner{left: maxUnion, doubted: doubted, fields: doubted}
	return j.join(a, b)
}

// Alternative is the type of a value that fits one of two schemas. It may be of any kind that one
// of them allows, but which fields it then has, a reader may know by another field.
func Alternative(a, b *Type) *Type {
	j := joiner{left: maxUnion, fields: true}
	return j.join(a, b)
}

type joiner struct {
	left    int
	doubted bool // kinds that only one has are unsure
	fields  bool // likewise, of the fields of objects
}

func (j *joiner) join(a, b *Type) *Type {
	switch j.left--; {
	case a == b, b.kinds == 0:
		return a
	case a.kinds == 0:
		return b
	case j.left < 0:
		return anyField
	}
	sureA, sureB := a.kinds&^a.unsure, b.kinds&^b.unsure
	sure := sureA | sureB
	if j.doubted {
		sure = sureA & sureB
	}
	out := &Type{kinds: a.kinds | b.kinds, items: anyType, rest: anyField, mixed: a.mixed || b.mixed}
	out.unsure = out.kinds &^ sure
	switch list := out.kinds & KindList; {
	case list&a.kinds&b.kinds != 0:
		out.items = j.join(a.items, b.items)
	case list&a.kinds != 0:
		out.items = a.items
	case list&b.kinds != 0:
		out.items = b.items
	}
	switch object := out.kinds & KindObject; {
	case object&a.kinds&b.kinds != 0:
		j.objects(out, a, b)
	case object&a.kinds != 0:
		out.fields, out.rest, out.lookup = a.fields, a.rest, a.lookup
	case object&b.kinds != 0:
		out.fields, out.rest, out.lookup = b.fields, b.rest, b.lookup
	}
	return out
}

func (j *joiner) objects(out, a, b *Type) {
	if a.lookup != nil || b.lookup != nil {
		return
	}
	in := &joiner{left: j.left, doubted: j.fields, fields: j.fields}
	out.fields = make(map[string]*Type, len(a.fields)+len(b.fields))
	for _, name := range slices.Concat(a.names(), b.names()) {
		if out.fields[name] == nil {
			out.fields[name] = in.join(a.field(name), b.field(name))
		}
	}
	j.left = in.left
	switch {
	case a.rest == nil:
		out.rest = b.rest
	case b.rest == nil:
		out.rest = a.rest
	default:
		out.rest = j.join(a.rest, b.rest)
	}
}

// Both is the type of a value that is of type a and of type b. What is sure of one of them is sure.
func Both(a, b *Type) *Type {
	j := joiner{left: maxUnion}
	return j.meet(a, b)
}

func (j *joiner) meet(a, b *Type) *Type {
	switch j.left--; {
	case a == b, b == anyType, b == anyField, j.left < 0:
		return a
	case a == anyType, a == anyField:
		return b
	}
	out := &Type{kinds: a.kinds & b.kinds, unsure: a.unsure & b.unsure, items: anyType, rest: anyField, mixed: a.mixed && b.mixed}
	if out.kinds == 0 { // no value is of both: nothing is said of none
		return anyType
	}
	out.items = j.meet(a.items, b.items)
	out.fields = make(map[string]*Type, len(a.fields)+len(b.fields))
	for _, name := range slices.Concat(a.names(), b.names()) {
		if out.fields[name] == nil {
			out.fields[name] = j.meet(a.field(name), b.field(name))
		}
	}
	if out.rest = nil; a.rest != nil && b.rest != nil {
		out.rest = j.meet(a.rest, b.rest)
	}
	return out
}
