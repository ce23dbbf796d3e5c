package expr

// MapTexts returns a copy of a decoded value in which f has replaced each text. The names of fields
// stay.
func MapTexts(v any, f func(text string) string) any {
	switch v := v.(type) {
	case string:
		return f(v)
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = MapTexts(v[i], f)
		}
		return list
	case map[string]any:
		fields := make(map[string]any, len(v))
		for name, field := range v { // any order
			fields[name] = MapTexts(field, f)
		}
		return fields
	}
	return v
}
