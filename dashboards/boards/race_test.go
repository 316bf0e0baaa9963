//go:build race

package boards

// buildFlags build eventmeter as this test is built, so that what was compiled for
// the other tests serves again.
var buildFlags = []string{"-race"}
