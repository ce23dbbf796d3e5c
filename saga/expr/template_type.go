package expr

// Type returns the type of the template's value. The types of its expressions were inferred when
// they were compiled.
func (t *Template) Type() *Type {
	if t == nil {
		return Exactly(KindNull)
	}
	switch t.form {
	case formConst:
		v, err := Decode(t.raw)
		if err != nil {
			return anyType
		}
		return typeOf(v)
	case formText:
		if p := t.single(); p != nil {
			return p.typ
		}
		return Exactly(KindString)
	case formList:
		types := make([]*Type, len(t.items))
		for i, item := range t.items {
			types[i] = item.Type()
		}
		return tuple(types)
	case formMap:
		fields := make(map[string]*Type, len(t.fields))
		for _, f := range t.fields {
			fields[f.Name] = f.Value.Type()
		}
		return Fields(fields, nil)
	}
	return Exactly(KindNull)
}

// typeOf returns the type of a value.
func typeOf(v any) *Type {
	switch v := v.(type) {
	case []any:
		types := make([]*Type, len(v))
		for i, item := range v {
			types[i] = typeOf(item)
		}
		return tuple(types)
	case map[string]any:
		fields := make(map[string]*Type, len(v))
		for name, f := range v { // any order
			fields[name] = typeOf(f)
		}
		return Fields(fields, nil)
	}
	return Exactly(KindsOf(v))
}

// tuple returns the type of a written-out list.
func tuple(types []*Type) *Type {
	out := Items(noType)
	for i, typ := range types {
		switch {
		case i == 0:
			out.items = typ
		case typ != out.items:
			out.mixed = out.mixed || typ.kinds != out.items.kinds || typ.kinds&(KindObject|KindList) != 0
			out.items = Union(out.items, typ, false)
		}
	}
	return out
}
