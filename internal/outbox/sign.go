package outbox

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"
)

// secretPrefix is at the beginning of a secret's text:
// https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md#signature-scheme
const secretPrefix = "whsec_"

// errSecret describes a valid secret. It never contains the secret.
var errSecret = errors.New("a sink's secret is whsec_ and the base64 of 24 to 64 random bytes: make one with `echo whsec_$(openssl rand -base64 32)`")

// readSecret returns the bytes of a secret.
func readSecret(text string) ([]byte, error) {
	encoded, ok := strings.CutPrefix(text, secretPrefix)
	key, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || len(key) < 24 || len(key) > 64 {
		return nil, errSecret
	}
	return key, nil
}

// CheckSecret returns an error if a secret is invalid. The error does not contain the secret.
func CheckSecret(text string) error {
	_, err := readSecret(text)
	return err
}

// sign returns the header webhook-signature: one signature for each key, so that a receiver can
// know either key while a secret is being replaced.
func sign(keys [][]byte, id string, at time.Time, body []byte) string {
	all := make([]string, len(keys))
	for i, key := range keys {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
		mac.Write(body)
		all[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return strings.Join(all, " ")
}
