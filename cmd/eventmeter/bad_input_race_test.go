//go:build race

package main

// refusalMemory is the most memory that a command may use to refuse its input,
// in bytes, with the race detector, which takes several times as much.
const refusalMemory = 1 << 30

// changesEach is how many values are tried at each place of an archive. With the race detector each takes several times as long.
const changesEach = 1

// oneOfAShape tries one place of those that differ in the items of lists only.
// With the race detector each change takes ten times as long.
const oneOfAShape = true
