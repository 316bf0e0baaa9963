// Package deploy holds the manifests that run eventmeter, and k6 with k6/x/mcpevents,
// on Kubernetes, and tests that check them against the types of the Kubernetes API.
package deploy
