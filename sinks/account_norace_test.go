//go:build !race

package sinks

const raceEnabled = false
