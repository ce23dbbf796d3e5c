package expr

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math/bits"
	"strconv"
)

// Journaled is an [Env] for a value that is computed once and kept, as a set step's output is in
// the journal: its expressions may ask for the time and for chance (see [Check]). It is as pure as
// any other: asked again, it gives the same.
type Journaled interface {
	Env
	// Now is the time that now() gives: RFC 3339, in UTC, with milliseconds.
	Now() string
	// Draw gives 16 bytes that nobody can guess beforehand, others for every n. n counts the draws
	// of one evaluation, or of one template's rendering, from 0.
	Draw(n int) [16]byte
}

// journaled are the functions that ask a [Journaled].
var journaled = map[string]function{
	"now":    {usage: "now()", gives: gives(KindString), call: fnNow},
	"random": {usage: "random(n)", takes: one(aCount), gives: gives(KindInteger), call: fnRandom},
	"uuid":   {usage: "uuid()", gives: gives(KindString), call: fnUUID},
}

// maxRandom is the largest n of random(n): up to there every program reads an integer exactly.
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

func (c *call) draw() ([16]byte, error) {
	env, err := c.journal()
	if err != nil {
		return [16]byte{}, err
	}
	n := c.draws
	c.draws++
	return env.Draw(n), c.burn(1)
}

func fnNow(c *call) (any, error) {
	env, err := c.journal()
	if err != nil {
		return nil, err
	}
	return env.Now(), nil
}

// fnUUID writes a draw as a UUID of version 8 (RFC 9562, section 5.8): it is not random to one who
// can repeat it.
func fnUUID(c *call) (any, error) {
	b, err := c.draw()
	if err != nil {
		return nil, err
	}
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80
	x := hex.EncodeToString(b[:])
	return x[:8] + "-" + x[8:12] + "-" + x[12:16] + "-" + x[16:20] + "-" + x[20:], nil
}

// fnRandom takes 128 bits modulo n: some results are more likely than others by at most 2^-75.
func fnRandom(c *call) (any, error) {
	n, err := c.count()
	if err != nil {
		return nil, err
	}
	b, err := c.draw()
	if err != nil {
		return nil, err
	}
	_, rest := bits.Div64(binary.BigEndian.Uint64(b[:8])%n, binary.BigEndian.Uint64(b[8:]), n)
	return json.Number(strconv.FormatUint(rest, 10)), nil
}

// count is the argument of random(n).
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
