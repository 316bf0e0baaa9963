package calibrate

import "github.com/eventmeter/eventmeter/internal/refserver/faults"

// calibrations has the calibration of every system.
var calibrations = map[string]calibration{
	faults.Events:   calibrateEvents,
	faults.Smithery: calibrateSmithery,
	faults.SEP1803:  calibrateSEP1803,
	faults.SEP975:   calibrateSEP975,
	faults.SEP2549:  calibrateSEP2549,
	faults.Updates:  calibrateUpdates,
}
