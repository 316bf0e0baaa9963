package exectest_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/exectest"
)

// role makes the test binary a program: a parent, which starts a child, or that child.
const role = "EXECTEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "parent":
		child := exectest.Command(os.Args[0])
		child.Env, child.Stdout = append(os.Environ(), role+"=child"), os.Stdout
		if err := child.Run(); err != nil {
			panic(err)
		}
	case "child":
		fmt.Println("running")
		time.Sleep(time.Minute)
		fmt.Println("left behind")
	default:
		os.Exit(m.Run())
	}
}

// A child that is left behind would say so. Its output ends with it.
func TestProgramsEndWithTheTestBinary(t *testing.T) {
	parent := exectest.Command(os.Args[0])
	parent.Env = append(os.Environ(), role+"=parent")
	out, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	parent.Stdout = theirs
	err = parent.Start()
	theirs.Close()
	if err != nil {
		t.Fatal(err)
	}
	said := bufio.NewReader(out)
	if line, err := said.ReadString('\n'); err != nil || line != "running\n" {
		t.Errorf("the child said %q: %v", line, err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = parent.Wait() // it was killed
	if rest, err := io.ReadAll(said); err != nil || len(rest) > 0 {
		t.Errorf("the child went on after its parent was killed: %q, %v", rest, err)
	}
}
