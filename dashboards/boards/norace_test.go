//go:build !race

package boards

var buildFlags []string
