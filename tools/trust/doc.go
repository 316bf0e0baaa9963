// Package trust measures how often eventmeter's own judgements are wrong. It holds tests only. Without -trust they
// run what takes seconds, and skip the rest. The flag -parallel of go test says how many runs there are at once:
//
//	go test ./tools/trust -v -trust -run TestComparisons                               # synthetic archives, seconds
//	go test ./tools/trust -v -trust -run TestRealComparisons -parallel 1 -timeout 2h   # real runs
//	go test ./tools/trust -v -trust -run TestDuets -busy 3 -parallel 4 -timeout 4h     # on a busy machine
//	go test ./tools/trust -v -trust -run TestIntervals -samples 1000 -timeout 2h       # simulated runs
//	go test ./tools/trust -v -trust -run TestRealIntervals -timeout 2h                 # real runs with a known delay
//	go test ./tools/trust -v -trust -run 'TestPlanted$' -parallel 6 -timeout 2h        # a server that breaks each row
//	go test ./tools/trust -v -trust -run TestPlantedLoad -parallel 6 -timeout 2h       # the same, under load alone
//	go test ./tools/trust -v -trust -run TestClean -runs 10 -timeout 4h                # servers that break none
//
// Each prints its table; with -write DIR, an absolute path, it also writes the table to a file there. A test fails
// when its goal is missed. What is not finished a minute before -timeout is not counted.
package trust
