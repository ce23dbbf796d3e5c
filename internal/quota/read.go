package quota

import (
	"context"
	"io"
)

// ReadAll reads r to its end, and reserves what it reads in the context's account. expected is how
// long r says that it is, -1 if it does not. It reads limit+1 bytes at most, so that the caller can
// tell what is too long. It returns the bytes read with an error, too, which is r's or the
// context's.
func ReadAll(ctx context.Context, r io.Reader, limit, expected int64) ([]byte, error) {
	account := FromContext(ctx)
	most := limit + 1
	if expected >= 0 && expected < limit {
		most = expected + 1 // one more, for the end to be seen
	}
	body := make([]byte, 0, min(most, 4<<10))
	for {
		if len(body) == cap(body) {
			if int64(len(body)) > limit {
				return body, nil
			}
			if int64(len(body)) == most {
				most = limit + 1 // it is longer than it has said
			}
			size := min(2*int64(cap(body)), most)
			if size > Free && expected >= 0 {
				size = most
			}
			if err := account.Reserve(ctx, size); err != nil {
				return body, err
			}
			body = append(make([]byte, 0, size), body...)
		}
		n, err := r.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch err {
		case nil:
		case io.EOF:
			account.Shrink(int64(len(body)))
			return body, nil
		default:
			return body, err
		}
	}
}
