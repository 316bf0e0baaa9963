// Package requests is a driver whose clients do not subscribe. They make plain requests
// at a rate, beside the lanes of other systems, in order to measure what the
// subscriptions of those lanes cost other clients.
package requests
