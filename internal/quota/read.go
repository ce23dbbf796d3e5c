package quota

import (
	"context"
	"io"
)

// ReadAll reads r to its end, and reserves the bytes in the context's account. expected is the
// announced length, -1 if there is none. It reads at most limit+1 bytes, so that the caller can
// detect that r is too long. If r or the context fails, it returns the error and the bytes read so
// far.
func ReadAll(ctx context.Context, r io.Reader, limit, expected int64) ([]byte, error) {
	account := FromContext(ctx)
	most := limit + 1
	if expected >= 0 && expected < limit {
		most = expected + 1 // one more, to see the end
	}
	body := make([]byte, 0, min(most, 4<<10))
	for {
		if len(body) == cap(body) {
			if int64(len(body)) > limit {
				return body, nil
			}
			if int64(len(body)) == most {
				most = limit + 1 // it is longer than announced
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
