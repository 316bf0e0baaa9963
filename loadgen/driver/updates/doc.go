// Package updates is the driver for servers without events. Its clients subscribe to a
// resource (resources/subscribe, or subscriptions/listen in the modern era) or to changes
// of a list, and read the resource or the list again when the server notifies them.
package updates
