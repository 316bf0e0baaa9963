package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEventmeterImage: what the image is built of exists, it runs as no root, and who
// runs in it may write where the compose file mounts its volume.
func TestEventmeterImage(t *testing.T) {
	text, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	copied := regexp.MustCompile(`(?m)^COPY ([^-].*) \S+$`).FindAllStringSubmatch(string(text), -1)
	if len(copied) != 2 {
		t.Fatalf("copied: %q", copied)
	}
	for _, m := range copied {
		for _, name := range strings.Fields(m[1]) {
			if _, err := os.Stat(filepath.Join("../..", name)); err != nil {
				t.Error(err)
			}
		}
	}
	for _, line := range []string{
		"VERSION=$VERSION dashboards/deploy/rootfs /rootfs\n", "\nFROM scratch\nCOPY --from=build /rootfs /\n",
		"COPY --from=build --chown=65532:65532 /rootfs/results /results\n", "\nUSER 65532:65532\n", "\nENTRYPOINT [\"/eventmeter\"]\n",
	} {
		if !strings.Contains(string(text), line) {
			t.Errorf("the image lacks: %q", line)
		}
	}
	compose, err := os.ReadFile("../compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(compose), "- results:/results\n") {
		t.Error("the compose file mounts no volume at /results")
	}
}
