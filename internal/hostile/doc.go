// Package hostile is a table of servers that attack the generator. Its tests run
// the built program against each of them and hold it to what it has to report,
// to its exit code, and to bounds of its memory and its time.
package hostile
