package driver

import (
	"testing"
	"unsafe"
)

// TestStreamLayout keeps what each message needs of a stream in two cache lines, with the
// 32 bytes that a system puts before it, and a stream in four.
func TestStreamLayout(t *testing.T) {
	const before = 32
	var s Stream
	if n := before + unsafe.Offsetof(s.pulse) + 8; n > 2*64 {
		t.Errorf("what a message needs takes %d bytes", n)
	}
	if unsafe.Offsetof(s.pulse) > unsafe.Offsetof(s.coalesced) {
		t.Error("what a message does not need stands before the pulse")
	}
	if n := before + unsafe.Sizeof(s); n > 4*64 {
		t.Errorf("a stream takes %d bytes", n)
	}
}
