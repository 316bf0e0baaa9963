//go:build !race

package main

// refusalMemory is the most memory that a command may use to refuse its input,
// in bytes.
const refusalMemory = 400 << 20

// changesEach is how many values are tried at each place of an archive.
const changesEach = 3

// oneOfAShape tries one place of those that differ in the items of lists only.
const oneOfAShape = false
