package evidence

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
)

// Errors of keys. None contains the key.
var (
	errPrivate = errors.New("it is not an Ed25519 private key in PEM: make one with `openssl genpkey -algorithm ed25519 -out anchors.pem`")
	errPublic  = errors.New("it is not an Ed25519 public key in PEM: make it from the private key with `openssl pkey -in anchors.pem -pubout -out anchors.pub`")
)

// ParseKey reads the private key that signs anchors: PKCS #8 in PEM. The error says how to make
// one, and has nothing of the text.
func ParseKey(text []byte) (ed25519.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, errPrivate
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errPrivate
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, errPrivate
	}
	return key, nil
}

// ParsePublic reads a public key, which checks anchors: SubjectPublicKeyInfo in PEM. The error says
// how to make it.
func ParsePublic(text []byte) (ed25519.PublicKey, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PUBLIC KEY" {
		return nil, errPublic
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, errPublic
	}
	key, ok := parsed.(ed25519.PublicKey)
	if !ok {
		return nil, errPublic
	}
	return key, nil
}

// KeyID names a key in anchors: the first 8 bytes of the SHA-256 of its DER form, in hex.
func KeyID(key ed25519.PublicKey) string {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		panic(err) // an Ed25519 key always has this form
	}
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:8])
}
