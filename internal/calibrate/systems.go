package calibrate

import "github.com/eventmeter/eventmeter/internal/refserver/faults"

// calibrations are those of all systems, each in a file of its own.
var calibrations = map[string]calibration{
	faults.Events:   calibrateEvents,
	faults.Smithery: calibrateSmithery,
	faults.SEP1803:  calibrateSEP1803,
	faults.SEP975:   calibrateSEP975,
	faults.SEP2549:  calibrateSEP2549,
	faults.Updates:  calibrateUpdates,
}
