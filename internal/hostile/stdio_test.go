//go:build linux

package hostile

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// serveStdio is a server on standard input and output with one of several
// attacks.
func serveStdio(how string) {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		x := &exchange{}
		x.read(line)
		switch {
		case x.id == "":
		case how == "handshake" && x.method == "server/discover", how == "stream" && x.method == "events/stream":
			endlessLine()
		case how == "ids" && x.method == "events/stream":
			fmt.Println(x.notification("active", `"cursor":"c0"`))
			id := strings.Repeat("9", 2<<20)
			for range 50 {
				fmt.Println(`{"jsonrpc":"2.0","id":"` + id + `","method":"ping"}`)
			}
		case x.method == "events/stream":
			fmt.Println(x.notification("active", `"cursor":"c0"`))
		case goodAnswer(x) != "":
			fmt.Println(goodAnswer(x))
		default:
			fmt.Println(x.fail(-32601, "Method not found"))
		}
	}
}

// endlessLine writes 512 MiB without a line end, until the output is closed.
func endlessLine() {
	piece := []byte(pad(1 << 20))
	for range 512 {
		if _, err := os.Stdout.Write(piece); err != nil {
			return
		}
	}
}
