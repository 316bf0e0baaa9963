// Package hostile is a table of servers that attack the generator. Its tests
// run the built program against each server and check its report, its exit
// code, its memory and its time.
package hostile
