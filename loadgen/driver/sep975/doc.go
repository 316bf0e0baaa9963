// Package sep975 is the driver of SEP-975: requests that can be resumed. Its lanes make
// work of their own: long calls of a tool, whose connections are cut and resumed. For
// comparison, a lane can resume the same calls by Last-Event-ID, with which the base
// protocol resumes the streams of a session.
package sep975
