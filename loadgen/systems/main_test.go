package systems_test

import (
	"testing"

	"github.com/eventmeter/eventmeter/loadgen/systems/systemstest"
)

func TestMain(m *testing.M) { systemstest.Main(m) }
