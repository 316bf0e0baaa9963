package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// testRun is the TestRun of the k6-operator, k6.io/v1alpha1, as its custom
// resource definition describes it: the fields that can be set and are not
// reserved. It is written down here because the operator's own module brings a
// whole controller with it.
type testRun struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty"`

	Spec struct {
		Script struct {
			VolumeClaim struct {
				Name     string `json:"name"`
				File     string `json:"file"`
				ReadOnly bool   `json:"readOnly"`
			} `json:"volumeClaim"`
			ConfigMap struct {
				Name string `json:"name"`
				File string `json:"file"`
			} `json:"configMap"`
			LocalFile string `json:"localFile"`
		} `json:"script"`
		Parallelism int32                `json:"parallelism"`
		Separate    bool                 `json:"separate"`
		Arguments   string               `json:"arguments"`
		Ports       []core.ContainerPort `json:"ports"`
		Initializer *testRunPod          `json:"initializer"`
		Starter     testRunPod           `json:"starter"`
		Runner      testRunPod           `json:"runner"`
		Quiet       string               `json:"quiet"`
		Paused      string               `json:"paused"`
		Cleanup     string               `json:"cleanup"`
	} `json:"spec"`
}

// testRunPod is what can be said of each of its pods.
type testRunPod struct {
	Affinity                     *core.Affinity              `json:"affinity"`
	AutomountServiceAccountToken string                      `json:"automountServiceAccountToken"` // a text, unlike in pods
	Env                          []core.EnvVar               `json:"env"`
	EnvFrom                      []core.EnvFromSource        `json:"envFrom"`
	Image                        string                      `json:"image"`
	ImagePullSecrets             []core.LocalObjectReference `json:"imagePullSecrets"`
	ImagePullPolicy              core.PullPolicy             `json:"imagePullPolicy"`
	Metadata                     struct{ Annotations, Labels map[string]string }
	NodeSelector                 map[string]string               `json:"nodeSelector"`
	Tolerations                  []core.Toleration               `json:"tolerations"`
	TopologySpreadConstraints    []core.TopologySpreadConstraint `json:"topologySpreadConstraints"`
	Resources                    core.ResourceRequirements       `json:"resources"`
	ServiceAccountName           string                          `json:"serviceAccountName"`
	SecurityContext              core.PodSecurityContext         `json:"securityContext"`
	ContainerSecurityContext     core.SecurityContext            `json:"containerSecurityContext"`
	ReadinessProbe               *core.Probe                     `json:"readinessProbe"`
	LivenessProbe                *core.Probe                     `json:"livenessProbe"`
	Volumes                      []core.Volume                   `json:"volumes"`
	VolumeMounts                 []core.VolumeMount              `json:"volumeMounts"`
	PriorityClassName            string                          `json:"priorityClassName"`
	SchedulerName                string                          `json:"schedulerName"`
}

// image is the Dockerfile of the custom k6.
func image(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("Dockerfile.k6")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTestRun(t *testing.T) {
	run := read[testRun](t, "testrun.yaml")
	if run.APIVersion != "k6.io/v1alpha1" || run.Kind != "TestRun" || run.Name == "" {
		t.Errorf("%s %s %q", run.APIVersion, run.Kind, run.Name)
	}
	s, pod := run.Spec, run.Spec.Runner
	if s.Parallelism < 2 {
		t.Errorf("parallelism %d: nothing is distributed", s.Parallelism)
	}
	if pod.SecurityContext.RunAsNonRoot == nil || pod.ContainerSecurityContext.Capabilities == nil ||
		pod.Resources.Requests.Cpu().IsZero() ||
		pod.AutomountServiceAccountToken != "false" {
		t.Error("the runners have no security context, or ask for no processor, or get a token of the cluster")
	}
	// The image is the one that the Dockerfile says how to make, and has the script.
	if want := "-t " + strings.TrimSuffix(pod.Image, ":latest") + " ."; !strings.Contains(image(t), want) {
		t.Errorf("image %s: the Dockerfile does not make it", pod.Image)
	}
	script, ok := strings.CutPrefix(s.Script.LocalFile, "/scripts/")
	if _, err := os.Stat(filepath.Join("../../xk6-mcpevents/examples", script)); !ok || err != nil {
		t.Errorf("script %q: %v", s.Script.LocalFile, err)
	}
	if !strings.Contains(image(t), "COPY xk6-mcpevents/examples /scripts") {
		t.Error("the image has no examples in /scripts")
	}
	checkScript(t, script, s.Arguments, pod.Env)
}

// checkScript requires that the script is given what it reads, and that metrics
// of several processes can be added up.
func checkScript(t *testing.T, script, arguments string, env []core.EnvVar) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../xk6-mcpevents/examples", script))
	if err != nil {
		t.Fatal(err)
	}
	given := map[string]bool{}
	for _, e := range env {
		given[e.Name] = true
		if (e.Value == "") == (e.ValueFrom == nil) {
			t.Errorf("%s has to have either a value or where it comes from", e.Name)
		}
	}
	words := strings.Fields(arguments)
	for i, w := range words {
		if w == "-e" && i+1 < len(words) {
			name, _, _ := strings.Cut(words[i+1], "=")
			given[name] = true
		}
	}
	for _, m := range regexp.MustCompile(`__ENV\.(\w+)`).FindAllStringSubmatch(string(text), -1) {
		if !given[m[1]] {
			t.Errorf("%s reads %s, which is not set", script, m[1])
		}
	}
	if !slices.Contains(words, "experimental-prometheus-rw") || !given["K6_PROMETHEUS_RW_SERVER_URL"] || !given["K6_FEATURES"] {
		t.Error("the runners do not write into Prometheus")
	}
}

// TestImage: every path of the repository that the image is built of exists.
func TestImage(t *testing.T) {
	copied := regexp.MustCompile(`(?m)^COPY ([^-].*) \S+$`).FindAllStringSubmatch(image(t), -1)
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
	if _, err := os.Stat(
		"../../xk6-mcpevents/cmd/k6/main.go",
	); err != nil ||
		!strings.Contains(image(t), "RUN CGO_ENABLED=0 go build -trimpath -ldflags=-s -o /k6 ./xk6-mcpevents/cmd/k6\n") {
		t.Errorf("the image builds no k6 (%v)", err)
	}
}
