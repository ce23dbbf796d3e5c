package archive

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// ErrDamaged means that an object is not what an archiver has stored.
var ErrDamaged = errors.New("the object is damaged")

// packer compresses lines to one zstd frame with a checksum.
type packer struct {
	buf  bytes.Buffer
	enc  *zstd.Encoder
	size int // bytes of the lines
}

func newPacker() (*packer, error) {
	p := &packer{}
	enc, err := zstd.NewWriter(&p.buf, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(true))
	p.enc = enc
	return p, err
}

// line adds a line.
func (p *packer) line(b []byte) error {
	p.size += len(b) + 1
	if _, err := p.enc.Write(b); err != nil {
		return err
	}
	_, err := p.enc.Write([]byte("\n"))
	return err
}

// end returns the object.
func (p *packer) end() ([]byte, error) {
	err := p.enc.Close()
	return p.buf.Bytes(), err
}

// Unpack returns the decompressed content of an object. Its reader returns an error that is
// ErrDamaged if the object was changed or cut off.
func Unpack(object io.Reader) (io.ReadCloser, error) {
	dec, err := zstd.NewReader(object, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return unpacked{dec.IOReadCloser()}, nil
}

type unpacked struct{ io.ReadCloser }

func (u unpacked) Read(b []byte) (int, error) {
	n, err := u.ReadCloser.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return n, err
}

// eachLine calls f for each line of an object, without its newline. The line is valid until f
// returns.
func eachLine(object []byte, f func(line []byte) error) error {
	r, err := Unpack(bytes.NewReader(object))
	if err != nil {
		return err
	}
	defer r.Close()
	in := bufio.NewReaderSize(r, 64<<10)
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(line) == 0:
			return nil
		case errors.Is(err, io.EOF):
			return fmt.Errorf("%w: its last line has no end", ErrDamaged)
		case err != nil:
			return err
		}
		if err := f(line[:len(line)-1]); err != nil {
			return err
		}
		line = line[:0]
	}
}
