package refserver

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"
)

// Smithery's triggers: the same event types by webhook alone, under method
// names and with a negotiation of their own. A subscription of theirs is a hook
// that is direct: delivered to from the first event on without a handshake,
// with neither a cursor nor any envelope, so that what is skipped is lost in
// silence.
const (
	smitheryPrefix    = "ai.smithery/events/"
	smitheryExtension = "ai.smithery/events"
)

func (c *call) smithery() bool { return strings.HasPrefix(c.method, smitheryPrefix) }

// makeDirect turns a hook that nobody knows yet into one of Smithery's: it does
// not meet those of the MCP Events draft under its key, and its id is new with
// each subscription, since it says whether one was still there.
func (h *hook) makeDirect() {
	var id [12]byte
	_, _ = rand.Read(id[:]) // it never fails
	h.direct = true
	h.key = smitheryExtension + "\x00" + h.key
	h.id = "sub_" + hex.EncodeToString(id[:])
}

// system names the one that a subscription belongs to.
func (h *hook) system() string {
	if h.direct {
		return "smithery"
	}
	return "events"
}

// directResult is the members of the result of a subscribe call.
func (h *hook) directResult(expires time.Time) []byte {
	b, err := json.Marshal(struct {
		ID            string  `json:"id"`
		RefreshBefore *string `json:"refreshBefore"`
	}{h.id, instant(expires)})
	if err != nil { // strings always encode
		return nil
	}
	return b[1 : len(b)-1]
}
