package ask

import (
	"crypto/sha256"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"recourse/journal"
)

// MaxContent limits one content, in bytes: a request has at most 16 MiB.
const MaxContent = 16 << 20

// Contents of several sessions are compressed at once, at the fastest level: the default one takes
// a quarter longer for a twentieth less. Letters without repetitions, such as pictures in base64,
// are compressed, too.
var (
	pack   = must(zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithAllLitEntropyCompression(true)))
	unpack = must(zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(2*MaxContent)))
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // the options are constant
	}
	return v
}

// Pack returns a content as it is stored: with the hash of its bytes, and compressed (zstd, RFC
// 8878).
func Pack(content []byte) journal.Blob {
	return journal.Blob{Hash: sha256.Sum256(content), Data: pack.EncodeAll(content, nil)}
}

// Unpack returns the content that Pack was given. Error: it is damaged.
func Unpack(b journal.Blob) ([]byte, error) {
	content, err := unpack.DecodeAll(b.Data, nil)
	if err == nil && sha256.Sum256(content) != b.Hash {
		err = fmt.Errorf("it has another hash")
	}
	if err != nil {
		return nil, fmt.Errorf("content %s: %w", hexed(b), err)
	}
	return content, nil
}
