package evidence

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// version is the version of the format of anchors.
const version = 1

// MaxLeaves is the most journals that one anchor covers. With more, an event for a sink would be
// larger than the 64 KiB that CloudEvents asks every receiver to accept.
const MaxLeaves = 400

// Head is the end of a saga's journal at a moment.
type Head struct {
	Saga     uuid.UUID
	Seq      int64     // of the last record, and so the number of records
	Hash     []byte    // of the last record: it stands for all records
	DeleteAt time.Time // of a saga that has ended: from when retention may delete it; zero: never
}

// leaf returns the text of the head, which is a leaf of an anchor's Merkle tree.
func (h *Head) leaf() string {
	text := h.Saga.String() + " " + strconv.FormatInt(h.Seq, 10) + " " + hex.EncodeToString(h.Hash)
	if !h.DeleteAt.IsZero() {
		text += " " + h.DeleteAt.UTC().Format(journal.TimeFormat)
	}
	return text
}

var errLeaf = errors.New("a leaf is a saga's id, a seq, a hash and perhaps a time")

// readLeaf reads the text of a head.
func readLeaf(text string) (Head, error) {
	fields := strings.Split(text, " ")
	if len(fields) != 3 && len(fields) != 4 {
		return Head{}, errLeaf
	}
	saga, err := uuid.FromString(fields[0])
	seq, err2 := strconv.ParseInt(fields[1], 10, 64)
	hash, err3 := hex.DecodeString(fields[2])
	h := Head{Saga: saga, Seq: seq, Hash: hash}
	if len(fields) == 4 {
		at, err := time.Parse(time.RFC3339, fields[3])
		if err != nil {
			return Head{}, errLeaf
		}
		h.DeleteAt = at
	}
	if errors.Join(err, err2, err3) != nil || seq < 1 || len(hash) != sha256.Size {
		return Head{}, errLeaf
	}
	return h, nil
}

// Anchor is what a process signs: that these journals had these ends at a moment.
type Anchor struct {
	Version  int    `json:"recourse_anchor"`
	Chain    string `json:"chain"`              // the process
	Number   int64  `json:"number"`             // in the chain: 1, 2, 3 …
	Previous string `json:"previous,omitempty"` // SHA-256 of the text of the anchor before, in hex
	Node     string `json:"node"`               // the node id of the process at that time
	At       string `json:"at"`                 // by the store's clock
	Last     bool   `json:"last,omitempty"`     // the process has ended in an orderly way
	Leaves   int    `json:"leaves"`             // how many journals it covers
	Root     string `json:"root"`               // of the Merkle tree over their heads, in hex
	Key      string `json:"key"`                // the id of the key that signs it, see KeyID
}

// Line is an anchor as it is stored and sent.
type Line struct {
	Anchor    string   `json:"anchor"`    // the JSON of the Anchor: exactly these bytes are signed
	Signature string   `json:"signature"` // Ed25519, in base64
	Leaves    []string `json:"leaves"`    // the heads, in the order of the tree
}

// Chain signs the anchors of one process, one after another.
type Chain struct {
	key      ed25519.PrivateKey
	id       string // of the key
	name     string
	number   int64
	previous string
}

// NewChain returns a chain without anchors. No two chains have the same name.
func NewChain(key ed25519.PrivateKey, name string) *Chain {
	return &Chain{key: key, id: KeyID(key.Public().(ed25519.PublicKey)), name: name}
}

// Sign returns the next anchor, over at most MaxLeaves heads. last says that no other one follows.
func (c *Chain) Sign(node string, at time.Time, heads []Head, last bool) Line {
	line := Line{Leaves: make([]string, len(heads))}
	for i := range heads {
		line.Leaves[i] = heads[i].leaf()
	}
	sum := root(line.Leaves)
	c.number++
	text, err := json.Marshal(Anchor{Version: version, Chain: c.name, Number: c.number, Previous: c.previous, Node: node, At: at.UTC().Format(journal.TimeFormat),
		Last: last, Leaves: len(heads), Root: hex.EncodeToString(sum[:]), Key: c.id})
	if err != nil {
		panic(err) // it has only texts and numbers
	}
	line.Anchor = string(text)
	line.Signature = base64.StdEncoding.EncodeToString(ed25519.Sign(c.key, text))
	c.previous = textHash(line.Anchor)
	return line
}

// textHash is how an anchor names the one before it.
func textHash(anchor string) string {
	sum := sha256.Sum256([]byte(anchor))
	return hex.EncodeToString(sum[:])
}

var errVersion = fmt.Errorf("it is not an anchor of version %d: check it with a newer release", version)

// open returns the anchor of a line and its heads, if a key has signed it and the leaves are those
// that it was signed with. The anchor is as it claims to be, even if there is an error.
func (l *Line) open(keys map[string]ed25519.PublicKey) (a Anchor, heads []Head, err error) {
	if err := json.Unmarshal([]byte(l.Anchor), &a); err != nil {
		return a, nil, errors.New("it is not an anchor")
	}
	if a.Version != version {
		return a, nil, errVersion
	}
	key, ok := keys[a.Key]
	if !ok {
		return a, nil, fmt.Errorf("its key %s is not one that you trust", a.Key)
	}
	signature, err := base64.StdEncoding.DecodeString(l.Signature)
	if err != nil || !ed25519.Verify(key, []byte(l.Anchor), signature) {
		return a, nil, errors.New("its signature is not valid: it was forged, or changed")
	}
	sum := root(l.Leaves)
	if len(l.Leaves) != a.Leaves || hex.EncodeToString(sum[:]) != a.Root {
		return a, nil, errors.New("its leaves are not those that were signed")
	}
	for _, text := range l.Leaves {
		h, err := readLeaf(text)
		if err != nil {
			return a, nil, err
		}
		heads = append(heads, h)
	}
	return a, heads, nil
}
