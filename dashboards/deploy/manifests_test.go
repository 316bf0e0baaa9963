package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
)

// read reads a manifest strictly: a key that its type does not have, or one
// that appears twice, is an error.
func read[T any](t *testing.T, name string) *T {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	out := new(T)
	if err := yaml.UnmarshalStrict(text, out); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return out
}

// TestEveryManifestIsChecked fails when a file is added that no test reads.
func TestEveryManifestIsChecked(t *testing.T) {
	got, err := filepath.Glob("*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"merge.yaml", "profile.yaml", "results.yaml", "shards.yaml", "testrun.yaml"}; !slices.Equal(got, want) {
		t.Errorf("manifests %v, and %v are checked", got, want)
	}
}

func TestShards(t *testing.T) {
	job := read[batch.Job](t, "shards.yaml")
	if job.APIVersion != "batch/v1" || job.Kind != "Job" || job.Spec.CompletionMode == nil ||
		*job.Spec.CompletionMode != batch.IndexedCompletion {
		t.Errorf("%s %s, completion mode %v: want an Indexed Job of batch/v1", job.APIVersion, job.Kind, job.Spec.CompletionMode)
	}
	if job.Spec.Completions == nil || job.Spec.Parallelism == nil || *job.Spec.Completions != *job.Spec.Parallelism {
		t.Error("all shards have to run at the same time: completions and parallelism differ")
	}
	if job.Spec.BackoffLimitPerIndex == nil || *job.Spec.BackoffLimitPerIndex != 0 {
		t.Error("a shard must not be started again")
	}
	pod := job.Spec.Template
	checkPod(t, &pod)
	args := pod.Spec.Containers[0].Args
	if want := "--shard=/" + string('0'+*job.Spec.Completions); !slices.Contains(args, want) {
		t.Errorf("arguments %v, want %s", args, want)
	}
	for _, env := range []string{"START_AT", "SHARD"} {
		if !slices.ContainsFunc(pod.Spec.Containers[0].Env, func(e core.EnvVar) bool { return e.Name == env && e.ValueFrom != nil }) {
			t.Errorf("%s is used and not set", env)
		}
	}
	spread := pod.Spec.TopologySpreadConstraints
	for key, value := range spread[0].LabelSelector.MatchLabels {
		if pod.Labels[key] != value {
			t.Errorf("the spread looks for %s=%s, and pods have %q", key, value, pod.Labels[key])
		}
	}
	if w := spread[0].WhenUnsatisfiable; w != core.ScheduleAnyway && w != core.DoNotSchedule {
		t.Errorf("whenUnsatisfiable %q", w)
	}
}

func TestMerge(t *testing.T) {
	job := read[batch.Job](t, "merge.yaml")
	if job.APIVersion != "batch/v1" || job.Kind != "Job" {
		t.Errorf("%s %s", job.APIVersion, job.Kind)
	}
	checkPod(t, &job.Spec.Template)
}

// checkPod checks what the types of the API leave open.
func checkPod(t *testing.T, pod *core.PodTemplateSpec) {
	t.Helper()
	claim := read[core.PersistentVolumeClaim](t, "results.yaml")
	profile := read[core.ConfigMap](t, "profile.yaml")
	if pod.Spec.RestartPolicy != core.RestartPolicyNever {
		t.Errorf("restart policy %q: a shard that starts again comes too late", pod.Spec.RestartPolicy)
	}
	volumes := map[string]bool{}
	for _, v := range pod.Spec.Volumes {
		volumes[v.Name] = true
		if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName != claim.Name {
			t.Errorf("volume %s: claim %s does not exist", v.Name, v.PersistentVolumeClaim.ClaimName)
		}
		if v.ConfigMap != nil && v.ConfigMap.Name != profile.Name {
			t.Errorf("volume %s: config map %s does not exist", v.Name, v.ConfigMap.Name)
		}
	}
	c := pod.Spec.Containers[0]
	for _, m := range c.VolumeMounts {
		if !volumes[m.Name] {
			t.Errorf("volume %s does not exist", m.Name)
		}
		delete(volumes, m.Name)
	}
	if len(volumes) > 0 {
		t.Errorf("volumes %v are not mounted", volumes)
	}
	if c.SecurityContext == nil || c.SecurityContext.Capabilities == nil || c.Resources.Requests.Cpu().IsZero() {
		t.Error("the container has no security context, or asks for no processor")
	}
	checkFlags(t, c.Args)
}

var flagName = regexp.MustCompile(`^--([a-z-]+)(=|$)`)

// checkFlags requires that the command has every flag that is given.
func checkFlags(t *testing.T, args []string) {
	t.Helper()
	var source strings.Builder
	files, err := filepath.Glob("../../cmd/eventmeter/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(text)
	}
	for _, a := range args {
		if m := flagName.FindStringSubmatch(a); m != nil && !regexp.MustCompile(`,\s+"`+m[1]+`(,\w)?",\s`).MatchString(source.String()) {
			t.Errorf("eventmeter has no flag --%s", m[1])
		}
	}
}

// TestProfile: the profile is one, and shards can share it without loss.
func TestProfile(t *testing.T) {
	m := read[core.ConfigMap](t, "profile.yaml")
	p, err := profiles.Parse(
		"profile.yaml",
		[]byte(m.Data["profile.yaml"]),
		[]string{"target.url=http://127.0.0.1:8080/mcp", "upstream.admin=http://127.0.0.1:8081"},
		systems.Table,
	)
	if err != nil {
		t.Fatal(err)
	}
	if p.Phases.Order != "together" {
		t.Error("lanes that take turns cannot be sharded by time")
	}
}

func TestResults(t *testing.T) {
	claim := read[core.PersistentVolumeClaim](t, "results.yaml")
	if claim.APIVersion != "v1" || claim.Kind != "PersistentVolumeClaim" || !slices.Contains(claim.Spec.AccessModes, core.ReadWriteMany) {
		t.Errorf("%s %s, %v: several pods write to it", claim.APIVersion, claim.Kind, claim.Spec.AccessModes)
	}
}
