package journal

import (
	"encoding/json"
	"reflect"
)

// Decoded are the values that a record's data was decoded into, by their type.
type Decoded struct {
	values map[reflect.Type]reflect.Value
}

// Remember makes r, and each copy of r, decode its data only once for each type: Decode then
// returns what it returned before. The simulator reads each record some hundred times. Only one
// goroutine may use such a record, and its copies.
func (r *Record) Remember() {
	r.Decoded = &Decoded{values: make(map[reflect.Type]reflect.Value, 1)}
}

// Decode reads the data of r into the zero value that into points to, and leaves it as it is if r
// has no data. Nobody may change what the value points to: other readers may have the same. Errors
// are those of encoding/json.
func (r *Record) Decode(into any) error {
	if len(r.Data) == 0 {
		return nil
	}
	if r.Decoded == nil {
		return json.Unmarshal(r.Data, into)
	}
	v := reflect.ValueOf(into).Elem()
	if known, ok := r.Decoded.values[v.Type()]; ok {
		v.Set(known)
		return nil
	}
	if err := json.Unmarshal(r.Data, into); err != nil {
		return err
	}
	if n, ok := into.(interface{ Nested() []Record }); ok {
		for i := range n.Nested() {
			n.Nested()[i].Remember()
		}
	}
	known := reflect.New(v.Type()).Elem()
	known.Set(v)
	r.Decoded.values[v.Type()] = known
	return nil
}
