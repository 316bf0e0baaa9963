// Package tools holds what measures and checks eventmeter itself. It is a module of its own and is not released:
// bench compares the client side with reference clients, studies measures the answers of results/studies again, and trust
// measures how often comparisons and intervals are wrong.
package tools
