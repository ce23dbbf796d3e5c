package expr

import (
	"maps"
	"slices"
	"strings"
)

// Kinds is a set of the types that a value may have. A number is a KindInteger or a KindFraction.
// Only an integer can be a count or an index; 1.0 is an integer. KindAbsent stands for a missing
// field.
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
	KindScalar = KindBool | KindNumber | KindString // kinds that can be inserted into text
	KindAny    = KindNull | KindScalar | KindList | KindObject
)

// Type is what is known about a value before it exists. It is immutable.
//
// A type is a set of kinds. Kinds that a schema declares, or that an expression certainly may have,
// are sure: if a place does not accept one of them, it is an error. The other kinds are uncertain,
// because no schema says that they occur: it is an error only if a place accepts none of the kinds.
// A value about which nothing is known may have any kind, all of them uncertain, so it is accepted
// everywhere.
type Type struct {
	kinds, uncertain Kinds
	items            *Type            // for a list
	mixed            bool             // the items of a list have different types, each at its index
	fields           map[string]*Type // for an object
	rest             *Type            // the type of the object's fields that are not in fields; nil: it has no others
	lookup           func(name string) *Type
}

var (
	anyType    = openType(KindAny)
	anyField   = openType(KindAny | KindAbsent)
	absentType = &Type{kinds: KindAbsent, items: anyType, rest: anyField}
	noType     = openType(0) // for the items of an empty list
)

// openType returns a type of which only the kinds are known.
func openType(kinds Kinds) *Type {
	t := &Type{kinds: kinds, uncertain: kinds}
	t.items, t.rest = t, t
	return t
}

// Any returns the type of a value about which nothing is known.
func Any() *Type { return anyType }

// Never returns the type without values.
func Never() *Type { return noType }

// Exactly returns the type of a value that may have each of the kinds. Nothing is known about its
// contents.
func Exactly(kinds Kinds) *Type { return &Type{kinds: kinds, items: anyType, rest: anyField} }

// Items returns the type of a list.
func Items(items *Type) *Type { return &Type{kinds: KindList, items: items, rest: anyField} }

// Fields returns the type of an object. rest is the type of its other fields; nil: there are none.
func Fields(fields map[string]*Type, rest *Type) *Type {
	return &Type{kinds: KindObject, items: anyType, fields: fields, rest: rest}
}

// Lookup returns the type of an object whose fields are looked up one by one; nil is any.
func Lookup(field func(name string) *Type) *Type {
	return &Type{kinds: KindObject, items: anyType, rest: anyField, lookup: field}
}

// Item returns the type of the items of a list.
func (t *Type) Item() *Type {
	if t.mixed {
		return t.items.Doubted()
	}
	return t.items
}

// Kinds returns the kinds that the value may have; sure are those that are declared.
func (t *Type) Kinds() (all, sure Kinds) { return t.kinds, t.kinds &^ t.uncertain }

// With returns t extended by some kinds, about which nothing else is known.
func (t *Type) With(kinds Kinds, sure bool) *Type {
	out := *t
	if sure {
		out.uncertain &^= kinds
	} else {
		out.uncertain |= kinds &^ t.kinds
	}
	out.kinds |= kinds
	return &out
}

// Only returns t narrowed to the kinds. The result is any if the kinds contradict t, because no
// value gets there.
func (t *Type) Only(kinds Kinds) *Type {
	if t.kinds&^kinds == 0 {
		return t
	}
	if t.kinds&kinds == 0 {
		return anyType
	}
	out := *t
	out.kinds, out.uncertain = t.kinds&kinds, t.uncertain&kinds
	return &out
}

// OfItems returns t with these items in its lists.
func (t *Type) OfItems(items *Type) *Type {
	out := *t
	out.items = items
	return &out
}

// OfFields returns t with these fields in its objects, see [Fields].
func (t *Type) OfFields(fields map[string]*Type, rest *Type) *Type {
	out := *t
	out.fields, out.rest = fields, rest
	return &out
}

// Optional returns t for objects that may lack these fields, if they are declared.
func (t *Type) Optional(names []string) *Type {
	if len(names) == 0 {
		return t
	}
	out := *t
	out.fields = maps.Clone(t.fields)
	for _, name := range names {
		if f, declared := t.fields[name]; declared {
			out.fields[name] = f.With(KindAbsent, false)
		}
	}
	return &out
}

// Lacks returns how many parts of a path of fields a value of type t can have, and whether those
// are not all: then no value has the next one.
func (t *Type) Lacks(path []string) (has int, lacks bool) {
	for i, name := range path {
		if t.kinds&^KindNull == 0 {
			return i, false
		}
		if t.kinds&KindObject == 0 || t.field(name).kinds == KindAbsent {
			return i, true
		}
		t = t.field(name).present()
	}
	return len(path), false
}

// At returns the type of what a path of fields leads to, if it leads to something.
func (t *Type) At(path []string) *Type {
	for _, name := range path {
		t = t.field(name).present()
	}
	return t
}

// Doubted returns t with no kind sure.
func (t *Type) Doubted() *Type {
	out := *t
	out.uncertain = t.kinds
	return &out
}

// present returns t for a field that exists.
func (t *Type) present() *Type { return t.Only(KindAny) }

// field returns the type of a field of an object of type t. It contains KindAbsent if the field may
// be missing.
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

// names returns the declared fields, sorted.
func (t *Type) names() []string { return slices.Sorted(maps.Keys(t.fields)) }

// fits reports whether a value of type t is accepted where one of the kinds is required.
func (t *Type) fits(want Kinds) bool {
	return t.kinds&want != 0 && t.kinds&^t.uncertain&^want == 0 || t.kinds == 0
}

// kindNames are the names of kinds, as type() returns them, in the order in which they are listed.
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

// maxUnion limits the work of joining two types, because schemas share parts and may have many.
const maxUnion = 500

// Union returns the type of a value that has type a or type b. doubted says that the author may
// know which of them it is by other means; kinds that only one of them has are then uncertain.
func Union(a, b *Type, doubted bool) *Type {
	j := joiner{left: maxUnion, doubted: doubted, fields: doubted}
	return j.join(a, b)
}

// Alternative returns the type of a value that fits one of two schemas. It may have any kind that
// one of them allows. Which fields it has may depend on another field, so they are uncertain.
func Alternative(a, b *Type) *Type {
	j := joiner{left: maxUnion, fields: true}
	return j.join(a, b)
}

type joiner struct {
	left    int
	doubted bool // kinds that only one of them has are uncertain
	fields  bool // the same for the fields of objects
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
	sureA, sureB := a.kinds&^a.uncertain, b.kinds&^b.uncertain
	sure := sureA | sureB
	if j.doubted {
		sure = sureA & sureB
	}
	out := &Type{kinds: a.kinds | b.kinds, items: anyType, rest: anyField, mixed: a.mixed || b.mixed}
	out.uncertain = out.kinds &^ sure
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
			out.fields[name] = in.join(a.possible(name), b.possible(name))
		}
	}
	j.left = in.left
	switch {
	case a.rest == nil:
		out.rest = b.rest
	case b.rest == nil:
		out.rest = a.rest
	default:
		out.rest = j.join(a.others(), b.others())
	}
}

// possible is field for a value of which other values are known to have the field: if nothing is
// known about this one, it may lack it.
func (t *Type) possible(name string) *Type {
	if f, declared := t.fields[name]; declared {
		return f
	}
	if t.rest != nil {
		return t.others()
	}
	return absentType
}

// others returns the type of the fields that are not declared, of which there may be some.
func (t *Type) others() *Type {
	if t.rest == anyType {
		return anyField
	}
	return t.rest
}

// Both returns the type of a value that has type a and type b. A kind that is sure in one of them
// is sure.
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
	out := &Type{kinds: a.kinds & b.kinds, uncertain: a.uncertain & b.uncertain, items: anyType, rest: anyField, mixed: a.mixed && b.mixed}
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
