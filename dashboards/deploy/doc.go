// Package deploy holds the manifests that run eventmeter, and k6 with
// k6/x/mcpevents, on Kubernetes, and the tests that hold them to the types of
// its API.
package deploy
