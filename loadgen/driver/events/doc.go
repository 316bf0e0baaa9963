// Package events is the client side of the MCP Events draft: polls, streams and
// webhooks. Smithery's triggers are a spelling of its webhooks.
package events
