package boards

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/eventmeter/eventmeter/internal/exectest"
)

// read reads a file of YAML strictly: a key that its type here does not have, or
// one that appears twice, is an error.
func read[T any](t *testing.T, name string) *T {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", name))
	if err != nil {
		t.Fatal(err)
	}
	out := new(T)
	if err := yaml.UnmarshalStrict(text, out); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return out
}

// The types have the keys of the formats that are used here, and no others.
type composeFile struct {
	Name     string                    `json:"name"`
	Services map[string]composeService `json:"services"`
	Volumes  map[string]struct{}       `json:"volumes"`
}

type composeService struct {
	Image string `json:"image"`
	Build *struct {
		Context    string `json:"context"`
		Dockerfile string `json:"dockerfile"`
	} `json:"build"`
	Command     []string          `json:"command"`
	WorkingDir  string            `json:"working_dir"`
	Environment map[string]string `json:"environment"`
	Volumes     []string          `json:"volumes"`
	Ports       []string          `json:"ports"`
	Healthcheck *struct {
		Test     []string `json:"test"`
		Interval string   `json:"interval"`
		Timeout  string   `json:"timeout"`
		Retries  int      `json:"retries"`
	} `json:"healthcheck"`
	DependsOn map[string]struct {
		Condition string `json:"condition"`
	} `json:"depends_on"`
}

type dataSources struct {
	APIVersion  int `json:"apiVersion"`
	Datasources []struct {
		Name      string `json:"name"`
		Type      string `json:"type"`
		UID       string `json:"uid"`
		Access    string `json:"access"`
		URL       string `json:"url"`
		IsDefault bool   `json:"isDefault"`
		Editable  bool   `json:"editable"`
		JSONData  struct {
			HTTPMethod        string `json:"httpMethod"`
			TimeInterval      string `json:"timeInterval"`
			PrometheusType    string `json:"prometheusType"`
			PrometheusVersion string `json:"prometheusVersion"`
		} `json:"jsonData"`
	} `json:"datasources"`
}

type providers struct {
	APIVersion int `json:"apiVersion"`
	Providers  []struct {
		Name                  string `json:"name"`
		Folder                string `json:"folder"`
		Type                  string `json:"type"`
		DisableDeletion       bool   `json:"disableDeletion"`
		AllowUIUpdates        bool   `json:"allowUiUpdates"`
		UpdateIntervalSeconds int    `json:"updateIntervalSeconds"`
		Options               struct {
			Path                      string `json:"path"`
			FoldersFromFilesStructure bool   `json:"foldersFromFilesStructure"`
		} `json:"options"`
	} `json:"providers"`
}

type prometheusConfig struct {
	Global struct {
		ScrapeInterval                string `json:"scrape_interval"`
		ScrapeTimeout                 string `json:"scrape_timeout"`
		EvaluationInterval            string `json:"evaluation_interval"`
		ScrapeNativeHistograms        bool   `json:"scrape_native_histograms"`
		AlwaysScrapeClassicHistograms bool   `json:"always_scrape_classic_histograms"`
	} `json:"global"`
	RuleFiles     []string `json:"rule_files"`
	ScrapeConfigs []struct {
		JobName       string `json:"job_name"`
		StaticConfigs []struct {
			Targets []string `json:"targets"`
		} `json:"static_configs"`
	} `json:"scrape_configs"`
}

// TestFilesFit holds the files to each other: what one names, the other has.
func TestFilesFit(t *testing.T) {
	compose := read[composeFile](t, "compose.yaml")
	checkMounts(t, compose)
	source := read[dataSources](t, "provisioning/datasources/prometheus.yaml").Datasources[0]
	config := read[prometheusConfig](t, "prometheus/prometheus.yaml")
	provider := read[providers](t, "provisioning/dashboards/eventmeter.yaml").Providers[0]

	host, _, _ := strings.Cut(strings.TrimPrefix(source.URL, "http://"), ":")
	if _, ok := compose.Services[host]; !ok || source.Type != "prometheus" {
		t.Errorf("the data source is a %s at %s, and there is no such service", source.Type, source.URL)
	}
	if source.JSONData.TimeInterval != config.Global.ScrapeInterval {
		t.Errorf(
			"Grafana takes scrapes to come every %s, and they come every %s",
			source.JSONData.TimeInterval,
			config.Global.ScrapeInterval,
		)
	}
	if image := compose.Services["prometheus"].Image; !strings.HasSuffix(image, ":v"+source.JSONData.PrometheusVersion) {
		t.Errorf("Grafana takes Prometheus for a %s, and it is %s", source.JSONData.PrometheusVersion, image)
	}
	if !config.Global.ScrapeNativeHistograms {
		t.Error("no native histograms are scraped")
	}
	target := config.ScrapeConfigs[0].StaticConfigs[0].Targets[0]
	service, port, _ := strings.Cut(target, ":")
	args := compose.Services[service].Command
	if i := slices.Index(args, "--metrics"); i < 0 || !strings.HasSuffix(args[i+1], ":"+port) {
		t.Errorf("Prometheus scrapes %s, and eventmeter has %v", target, args)
	}
	if !slices.ContainsFunc(
		compose.Services["grafana"].Volumes,
		func(v string) bool { return strings.HasPrefix(v, "./grafana:"+provider.Options.Path) },
	) {
		t.Errorf("Grafana reads dashboards from %s, where none are", provider.Options.Path)
	}
}

func checkMounts(t *testing.T, compose *composeFile) {
	t.Helper()
	for name, s := range compose.Services {
		if (s.Image == "") == (s.Build == nil) {
			t.Errorf("%s is neither pulled nor built, or both", name)
		}
		if s.Build != nil {
			if _, err := os.Stat(filepath.Join("..", s.Build.Context, s.Build.Dockerfile)); err != nil {
				t.Error(err)
			}
		}
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			_, named := compose.Volumes[from]
			if _, err := os.Stat(filepath.Join("..", from)); err != nil && !named {
				t.Errorf("%s mounts %s: %v", name, from, err)
			}
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s opens %s to others", name, p)
			}
		}
		for other, on := range s.DependsOn {
			if _, ok := compose.Services[other]; !ok {
				t.Errorf("%s waits for %s, and there is no such service", name, other)
			}
			if on.Condition == "service_healthy" && compose.Services[other].Healthcheck == nil {
				t.Errorf("%s waits for the health of %s, which has no check", name, other)
			}
		}
	}
}

// checkCommand holds the flags of the compose file to those of the program.
func checkCommand(t *testing.T, program string) {
	t.Helper()
	services := read[composeFile](t, "compose.yaml").Services
	for _, name := range []string{"target", "eventmeter"} {
		args := services[name].Command
		help, err := exectest.Command(program, args[0], "--help").Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range args {
			if strings.HasPrefix(a, "--") && !strings.Contains(string(help), a+" ") {
				t.Errorf("eventmeter %s does not know %s", args[0], a)
			}
		}
	}
	// The run is told the addresses at which the other service listens.
	run, serve := strings.Join(services["eventmeter"].Command, " "), strings.Join(services["target"].Command, " ")
	for flag, url := range map[string]string{"--addr 0.0.0.0:8080": "--target http://target:8080/mcp",
		"--admin 0.0.0.0:8081": "--upstream-url http://target:8081", "--token compose-token": "--token compose-token"} {
		if !strings.Contains(serve, flag) || !strings.Contains(run, url) {
			t.Errorf("the target has %q, or the run has no %q", flag, url)
		}
	}
}
