//go:build race

package main

// refusalMemory is the most memory that a command may use to refuse its input,
// in bytes, with the race detector, which takes several times as much.
const refusalMemory = 1 << 30
