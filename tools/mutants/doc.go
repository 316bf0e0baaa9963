// Package mutants changes counting code in one place at a time and looks whether a test notices. It holds tests
// only. Without -mutants it checks its own operators, which takes seconds:
//
//	go test ./tools/mutants -v -mutants -timeout 3h                    # 200 places, drawn with the commit's id as seed
//	go test ./tools/mutants -v -mutants -only results -places 20       # of one package
//
// The operators are fixed: another comparison, another sign, a bound that is off by one, a statement that is dropped,
// and two arguments that are swapped. Locks stay, and of the drivers only functions that count are changed. What does
// not compile is drawn again. As many mutants are tried at a time as -parallel says. The test fails when less than nine
// tenths of the mutants are noticed. Those that change no behaviour stand in equivalent.txt, each with its reason.
package mutants
