package streamclient

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/internal/budget"
	"golang.org/x/net/http2"
)

// Heads that are not complete are paid for together.
func TestAnswersShareBudget(t *testing.T) {
	b := budget.New(512 << 10)
	line := []byte("X-Field: " + strings.Repeat("x", 1000) + "\r\n")
	answers := make([]answer, 32)
	full := 0
	for i := range answers {
		a := &answers[i]
		a.hold = budget.Of(b)
		err := a.feed([]byte("HTTP/1.1 200 OK\r\n"), Arrival{}, nil)
		for range 50 {
			if err == nil {
				err = a.feed(line, Arrival{}, nil)
			}
		}
		if errors.Is(err, budget.ErrExceeded) {
			full++
			a.drop()
		} else if err != nil {
			t.Fatal(err)
		}
		if b.Used() > 512<<10 {
			t.Fatalf("%d bytes used", b.Used())
		}
	}
	if full == 0 || full == len(answers) {
		t.Errorf("%d of %d found no room", full, len(answers))
	}
	for i := range answers {
		answers[i].drop()
	}
	if b.Used() != 0 {
		t.Errorf("%d bytes are left", b.Used())
	}
}

func TestHeadLimit(t *testing.T) {
	var a answer
	defer a.drop()
	must(t, a.feed([]byte("HTTP/1.1 200 OK\r\n"), Arrival{}, nil))
	err := a.feed(bytes.Repeat([]byte("x"), maxHead), Arrival{}, nil)
	if !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), "the head is too long") {
		t.Error(err)
	}
}

// Frames that carry nothing are a flood only when they come fast.
func TestIdleFrames(t *testing.T) {
	var c h2Conn
	now := int64(1)
	for range 10 * maxIdleFrames {
		if now += 1e5; c.idle(now) != nil {
			t.Fatal("10,000 frames a second are a flood")
		}
	}
	var rule *RuleError
	for range maxIdleFrames + 1 {
		if errors.As(c.idle(now), &rule) {
			break
		}
	}
	if rule == nil || rule.Code != http2.ErrCodeEnhanceYourCalm {
		t.Errorf("got %v", rule)
	}
}
