//go:build !race

package main

// refusalMemory is the most memory that a command may use to refuse its input,
// in bytes.
const refusalMemory = 400 << 20
