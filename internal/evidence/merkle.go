package evidence

import (
	"crypto/sha256"
	"math/bits"
)

// root returns the Merkle tree hash of the leaves, as RFC 6962 section 2.1 defines it: leaves and
// inner nodes are hashed with different prefixes, so that neither can be taken for the other.
func root(leaves []string) [sha256.Size]byte {
	if len(leaves) == 0 {
		return sha256.Sum256(nil)
	}
	level := make([][sha256.Size]byte, len(leaves))
	for i, leaf := range leaves {
		level[i] = sha256.Sum256(append([]byte{0}, leaf...))
	}
	return subtree(level)
}

// subtree returns the hash of the tree over hashes of leaves, at least one. Its left half is the
// largest complete tree that leaves something for the right half.
func subtree(leaves [][sha256.Size]byte) [sha256.Size]byte {
	if len(leaves) == 1 {
		return leaves[0]
	}
	split := 1 << (bits.Len(uint(len(leaves)-1)) - 1)
	left, right := subtree(leaves[:split]), subtree(leaves[split:])
	node := append([]byte{1}, left[:]...)
	return sha256.Sum256(append(node, right[:]...))
}
