// Package events is the driver of the MCP Events draft: polls, streams and webhooks. It
// also drives Smithery's triggers, which are a spelling of the draft's webhooks.
package events
