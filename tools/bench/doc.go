// Command bench measures what eventmeter's client side costs, beside the smallest programs that could
// do the same job and beside the official SDK's client. Each client and each target is a process of
// its own; CPU and memory of all clients are read in the same way, from outside. It needs Linux.
// See docs/benchmarks.md.
package main
