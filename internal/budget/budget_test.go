package budget

import (
	"errors"
	"sync"
	"testing"
)

func TestHold(t *testing.T) {
	b := New(100 << 10)
	h, other := Of(b), Of(b)
	for _, s := range []struct {
		hold *Hold
		size int
		err  error
		used int64
	}{
		{&h, 0, nil, 0},
		{&h, Allowance, nil, 0},
		{&h, Allowance + 1, nil, 8 << 10},
		{&h, Allowance + step, nil, 8 << 10},
		{&h, Allowance + step + 1, nil, 16 << 10},
		{&other, 44 << 10, nil, 96 << 10},
		{&h, 20 << 10, ErrExceeded, 96 << 10},
		{&other, 4 << 10, nil, 16 << 10},
		{&h, 20 << 10, nil, 32 << 10},
		{&h, 100, nil, 0},
	} {
		if err := s.hold.Resize(s.size); !errors.Is(err, s.err) || b.Used() != s.used {
			t.Fatalf("resize to %d: %v, %d used, want %v, %d", s.size, err, b.Used(), s.err, s.used)
		}
	}
	_ = h.Resize(20 << 10)
	h.Drop()
	h.Drop()
	if b.Used() != 0 || h.Held() {
		t.Errorf("%d bytes are left", b.Used())
	}
}

func TestWithoutBudget(t *testing.T) {
	var h Hold
	if err := h.Resize(1 << 40); err != nil {
		t.Error(err)
	}
	h.Drop()
	if New(0).limit != Default {
		t.Error("no default")
	}
}

// Holds of many goroutines never pass the limit together, and leave nothing.
func TestConcurrent(t *testing.T) {
	b := New(1 << 20)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			h := Of(b)
			for i := range 2000 {
				if h.Resize(i%512<<10) != nil {
					h.Drop()
				}
				if u := b.Used(); u < 0 {
					t.Errorf("%d bytes used", u)
				}
			}
			h.Drop()
		})
	}
	wg.Wait()
	if b.Used() != 0 {
		t.Errorf("%d bytes are left", b.Used())
	}
}

func BenchmarkResizeSmall(b *testing.B) {
	budget := New(0)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		h := Of(budget)
		for pb.Next() {
			_ = h.Resize(1 << 10)
			h.Drop()
		}
	})
}
