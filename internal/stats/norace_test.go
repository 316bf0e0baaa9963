//go:build !race

package stats

// underRace is true under the race detector, which makes the rates ten times as
// slow to measure.
const underRace = false
