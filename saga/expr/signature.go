package expr

import "maps"

import "strings"

// kindOf returns the kind of a value, either kind of number for a number.
func kindOf(v any) Kinds {
	name := kind(v)
	for _, one := range kindNames {
		if one.name == name {
			return one.kinds
		}
	}
	return 0
}

// phrase lists the kinds in a sentence: "a string, a list or an object".
func (k Kinds) phrase() string {
	if k&KindAny == KindAny {
		return "any value"
	}
	names := strings.Split(k.String(), " or ")
	for i, name := range names {
		switch {
		case name == "null":
		case name[0] == 'o' || name[0] == 'i':
			names[i] = "an " + name
		default:
			names[i] = "a " + name
		}
	}
	if last := len(names) - 1; last > 0 {
		return strings.Join(names[:last], ", ") + " or " + names[last]
	}
	return names[0]
}

// gives returns the result type of a function whose result always has the kind.
func gives(kind Kinds) func([]*Type) *Type {
	out := Exactly(kind)
	return func([]*Type) *Type { return out }
}

// givesNumber is the type of a number computed from the arguments, or from the items of the only
// argument.
func givesNumber(args []*Type) *Type {
	out := Exactly(KindInteger)
	for _, arg := range args {
		if arg.kinds&KindList != 0 {
			out = sum(out, arg.items)
		}
		if arg.kinds&KindString != 0 { // text that is a number, of either kind
			out = sum(out, Exactly(KindNumber).Doubted())
		}
		if arg.kinds&KindNumber != 0 {
			out = sum(out, arg.Only(KindNumber))
		}
	}
	return out
}

// givesRounded is an integer, unless a number of places is given.
func givesRounded(args []*Type) *Type {
	if len(args) == 1 {
		return Exactly(KindInteger)
	}
	return Exactly(KindNumber).Doubted()
}

var texts = Items(Exactly(KindString))

func givesTexts([]*Type) *Type { return texts }

// givesList is the type of the first argument, a list.
func givesList(args []*Type) *Type { return listOf(args[0]) }

func listOf(t *Type) *Type {
	return &Type{kinds: KindList, items: t.items, mixed: t.mixed, rest: anyField}
}

// givesItem is the type of an item of a list, which may not exist.
func givesItem(args []*Type) *Type { return itemOf(args[0]) }

func itemOf(list *Type) *Type { return list.Item().With(KindNull, false) }

func givesAllItems(args []*Type) *Type {
	out := listOf(args[0])
	for _, arg := range args[1:] {
		out = Union(out, listOf(arg), false)
		out.mixed = true
	}
	return out
}

func givesFlat(args []*Type) *Type {
	if args[0].items.kinds&KindList == 0 {
		return listOf(args[0])
	}
	return Exactly(KindList)
}

// givesMerged is the type of the first object with the second object's fields over it.
func givesMerged(args []*Type) *Type {
	a, b := args[0], args[1]
	if a.lookup != nil || b.lookup != nil || b.rest != nil {
		return Exactly(KindObject)
	}
	fields := make(map[string]*Type, len(a.fields)+len(b.fields))
	maps.Copy(fields, a.fields)
	for name, f := range b.fields { // any order
		if f.kinds&KindAbsent != 0 {
			f = Union(f.present(), a.field(name), true)
		}
		fields[name] = f
	}
	return Fields(fields, a.rest)
}

// givesOf is gives for a predicate.
func givesOf(kind Kinds) func(list, body *Type) *Type {
	return func(*Type, *Type) *Type { return Exactly(kind) }
}

func givesFiltered(list, _ *Type) *Type { return listOf(list) }
func givesFound(list, _ *Type) *Type    { return itemOf(list) }
func givesMapped(_, body *Type) *Type   { return Items(body) }
