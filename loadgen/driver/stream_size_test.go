package driver

import (
	"testing"
	"unsafe"
)

// TestStreamLayout keeps what each message needs of a stream in four cache lines,
// with the 24 bytes that a system puts before it.
func TestStreamLayout(t *testing.T) {
	var s Stream
	if n := 24 + unsafe.Offsetof(s.pulse) + 8; n > 4*64 {
		t.Errorf("what a message needs takes %d bytes", n)
	}
	if unsafe.Offsetof(s.pulse) > unsafe.Offsetof(s.streams) {
		t.Error("what a message does not need stands before the pulse")
	}
}
