// Package systemstest is for tests of drivers: a recorder that can be waited for, a
// reference server, and conversations that are written by hand.
package systemstest

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// Main runs a package's tests and checks that they leave no goroutine behind. It is also
// the server of conversations over a pipe, for which the test program starts itself.
func Main(m *testing.M) {
	if file := os.Getenv(asServer); file != "" {
		os.Exit(serveFile(file))
	}
	goleak.VerifyTestMain(m)
}
