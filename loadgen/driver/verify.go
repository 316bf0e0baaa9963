package driver

import (
	"errors"
	"time"

	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/sinks"
)

// Verify says what becomes of a delivery whose signature does not verify.
type Verify string

// What receivers do with such deliveries.
const (
	// VerifyStrict refuses them, as the draft wants.
	VerifyStrict Verify = "strict"
	// VerifyReport takes them and notes what is wrong.
	VerifyReport Verify = "report"
)

// taken is what is noted of a delivery that was taken although it does not
// verify.
const taken = "taken by verify: report: "

// rejection says why a delivery does not verify. Each of the suspects is made of
// a secret that the sender may have used.
func rejection(err error, in *sinks.Inbound, suspects []*wire.Suspects) string {
	why := "wrong signature"
	switch {
	case errors.Is(err, wire.ErrStale):
		return "stale timestamp"
	case errors.Is(err, wire.ErrUnsigned):
		why = "unsigned"
	}
	for _, s := range suspects {
		if mistake := s.Diagnose(in.Header, in.Body); mistake != "" {
			return why + ": " + mistake
		}
	}
	return why
}

// suspected returns what deliveries may be signed with by mistake.
func (k *hook) suspected() []*wire.Suspects {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.suspects == nil {
		k.suspects = append(k.suspects, wire.NewSuspects(k.secret, k.keys[0]))
		if k.keys[1] != nil {
			k.suspects = append(k.suspects, wire.NewSuspects(k.former, k.keys[1]))
		}
	}
	return k.suspects
}

// verify checks a delivery's signature. The deviation, if there is one, is what
// is wrong with it.
func (k *hook) verify(in *sinks.Inbound) (deviation string) {
	if err := k.signed(in); err != nil {
		return rejection(err, in, k.suspected())
	}
	return ""
}

// verify does the same for a secret of the server's.
func (k *resourceHook) verify(in *sinks.Inbound) (deviation string) {
	if k.key == nil {
		return ""
	}
	if err := wire.Verify(in.Header, in.Body, time.Now(), k.key); err != nil {
		return rejection(err, in, []*wire.Suspects{wire.NewSuspects(k.secret, k.key)})
	}
	return ""
}
