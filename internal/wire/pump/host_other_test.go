//go:build !linux

package pump

const kernelHasLoopbackNet = false
