// Package sep975 is the client side of SEP-975: requests that can be resumed. Its
// lanes make work of their own, long calls of a tool that are cut off and go on.
package sep975
