// Package goldens pins what eventmeter puts out, so that a change of its insides shows
// what it changes outside. Its tests play made-up runs to the real ledger, write what
// follows from them in every form, and compare it with testdata.
package goldens
