package sep1803_test

import (
	"testing"

	"github.com/eventmeter/eventmeter/loadgen/systems/systemstest"
)

func TestMain(m *testing.M) { systemstest.Main(m) }

func TestWireFiles(t *testing.T) { systemstest.PlayFiles(t, "testdata/wire/*.txtar") }

func TestStdioFiles(t *testing.T) { systemstest.PlayStdioFiles(t, "testdata/stdio/*.txtar") }
