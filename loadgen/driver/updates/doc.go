// Package updates is the client side of servers that have no events: clients
// subscribe to a resource (resources/subscribe, or subscriptions/listen in the
// modern era) or to changes of a list, and read it again when the server
// notifies them.
package updates
