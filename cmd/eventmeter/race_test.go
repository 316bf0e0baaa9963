//go:build race

package main

// raceDetector says that the tests have it.
const raceDetector = true
