//go:build !race

package main

// changesEach is how many values are tried at each place of an archive.
const changesEach = 3

// oneOfAShape tries one place of those that differ in the items of lists only.
const oneOfAShape = false
