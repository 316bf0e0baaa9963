//go:build !unix

package health

// FileLimit returns 0: this system reports no limit of open files.
func FileLimit() int64 { return 0 }
