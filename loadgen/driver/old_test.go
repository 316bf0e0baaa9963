package driver_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// signOld is the older revision's signature, made with the standard library.
func signOld(secret string, at time.Time, body string) string {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return err.Error()
	}
	h := hmac.New(sha256.New, key)
	fmt.Fprintf(h, "%d.%s", at.Unix(), body)
	return hex.EncodeToString(h.Sum(nil))
}
