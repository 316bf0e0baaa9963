//go:build race

package ledger

// raceEnabled says that the tests run under the race detector, which makes the
// model about ten times slower.
const raceEnabled = true
