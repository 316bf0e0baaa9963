// Package sep1803 is the driver of SEP-1803: events as resources, in band on the stream of
// a session, and out of band as webhooks.
package sep1803
