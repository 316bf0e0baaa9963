// Package sep2549 is the driver of SEP-2549. Its clients use a list repeatedly and cache it
// for as long as the server allows.
package sep2549
