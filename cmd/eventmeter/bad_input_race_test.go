//go:build race

package main

// changesEach is how many values are tried at each place of an archive. With the race detector each takes several times as long.
const changesEach = 1

// oneOfAShape tries one place of those that differ in the items of lists only.
// With the race detector each change takes ten times as long.
const oneOfAShape = true
