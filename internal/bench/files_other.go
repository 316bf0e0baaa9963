//go:build !unix

package bench

// fileLimit is 0: this system has no limit of open files that can be asked for.
func fileLimit() int64 { return 0 }
