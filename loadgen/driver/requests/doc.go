// Package requests is a client side that subscribes to nothing: its clients make
// plain requests at a rate, beside the lanes of other systems, and measure what
// the subscriptions of those cost everybody else.
package requests
