//go:build !unix

package selfbench

// fileLimit is how many files this process may have open, 0 = not known.
func fileLimit() int { return 0 }
