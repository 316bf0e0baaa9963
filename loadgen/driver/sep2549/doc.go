// Package sep2549 is the client side of SEP-2549: clients that use a list and keep
// it for as long as the server lets them.
package sep2549
