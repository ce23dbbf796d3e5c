package expr

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math/bits"
	"strconv"
)

// Journaled is an [Env] for a value that is computed once and journaled, such as the output of a
// set step. Its expressions may use the time and random bytes (see [Check]). It is as pure as any
// other Env: repeated calls return the same values.
type Journaled interface {
	Env
	// Now returns the result of now(): a time in RFC 3339, in UTC, with milliseconds.
	Now() string
	// Random returns 16 bytes that cannot be predicted, different for every n. n counts the calls
	// in one evaluation, or in the rendering of one template, from 0.
	Random(n int) [16]byte
}

// journaled are the functions that use a [Journaled].
var journaled = map[string]function{
	"now":    {usage: "now()", gives: gives(KindString), call: fnNow},
	"random": {usage: "random(n)", takes: one(aCount), gives: gives(KindInteger), call: fnRandom},
	"uuid":   {usage: "uuid()", gives: gives(KindString), call: fnUUID},
}

// maxRandom is the largest n of random(n). Every program reads integers up to this size exactly.
const maxRandom = 1 << 53

func (c *call) journal() (Journaled, error) {
	if c.partial {
		return nil, ErrUnknown
	}
	if env, ok := c.env.(Journaled); ok {
		return env, nil
	}
	return nil, fail(CodeNotAvailable, "%s is not available here", c.name)
}

func (c *call) random() ([16]byte, error) {
	env, err := c.journal()
	if err != nil {
		return [16]byte{}, err
	}
	n := c.randoms
	c.randoms++
	return env.Random(n), c.burn(1)
}

func fnNow(c *call) (any, error) {
	env, err := c.journal()
	if err != nil {
		return nil, err
	}
	return env.Now(), nil
}

// fnUUID writes random bytes as a UUID of version 8 (RFC 9562, section 5.8), because a replay can
// reproduce them.
func fnUUID(c *call) (any, error) {
	b, err := c.random()
	if err != nil {
		return nil, err
	}
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80
	x := hex.EncodeToString(b[:])
	return x[:8] + "-" + x[8:12] + "-" + x[12:16] + "-" + x[16:20] + "-" + x[20:], nil
}

// fnRandom reduces 128 bits modulo n. Some results are more likely than others by at most 2^-75.
func fnRandom(c *call) (any, error) {
	n, err := c.count()
	if err != nil {
		return nil, err
	}
	b, err := c.random()
	if err != nil {
		return nil, err
	}
	_, rest := bits.Div64(binary.BigEndian.Uint64(b[:8])%n, binary.BigEndian.Uint64(b[8:]), n)
	return json.Number(strconv.FormatUint(rest, 10)), nil
}

// count returns the argument of random(n).
func (c *call) count() (uint64, error) {
	v, err := c.number(0)
	if err != nil {
		return 0, err
	}
	d, err := decimalOf(v)
	if err != nil {
		return 0, err
	}
	i, ok, err := integerOf(d)
	switch {
	case err != nil:
		return 0, err
	case !ok:
		return 0, fail(CodeWrongType, "random: the argument must be an integer; use int()")
	case !i.IsInt64() || i.Int64() < 1 || i.Int64() > maxRandom:
		return 0, fail(CodeBadValue, "random: the argument must be from 1 to 2^53: random(n) gives an integer from 0 to n-1")
	}
	return uint64(i.Int64()), nil
}
