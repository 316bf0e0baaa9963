package promtest

import (
	"testing"
	"time"
)

// TestAsk asks for what needs no scrape: one comes only seconds after a start.
func TestAsk(t *testing.T) {
	s := Start(t, Options{})
	if v := s.Value(t, `sum(vector(40)) + 2`); v != 42 {
		t.Errorf("the answer is %v", v)
	}
	if v := s.Value(t, "42"); v != 42 {
		t.Errorf("the number is %v", v)
	}
	if _, err := s.TryQuery("answer{", time.Time{}); err == nil {
		t.Error("an expression that is wrong is no error")
	}
	all, err := s.TryRange("vector(42)", time.Now().Add(-time.Minute), time.Now(), time.Second)
	if err != nil || len(all) != 1 || all[0].Value != 42 || all[0].Points < 60 {
		t.Errorf("a range has %v, %v", all, err)
	}
}
