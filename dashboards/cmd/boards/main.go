// Command boards writes the Grafana dashboards of eventmeter as JSON.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/eventmeter/eventmeter/dashboards/boards"
)

func main() {
	out := flag.String("out", "dashboards/grafana", "directory to write to, which must exist")
	flag.Parse()
	if err := boards.Write(*out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
