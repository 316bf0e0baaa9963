// Package deploy holds the manifests that run mcpload on Kubernetes, and the
// test that holds them to the types of its API.
package deploy
