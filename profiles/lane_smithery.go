package profiles

// SmitheryLane is what a lane of system smithery can be told beside its webhook
// block: variants that are seen in the wild.
type SmitheryLane struct {
	// ArgumentsKey is the name under which arguments are sent: params, as
	// specified, or arguments. Empty = params.
	ArgumentsKey string `yaml:"argumentsKey,omitempty" json:"argumentsKey,omitempty" check:"|params|arguments"`
	// ClientID adds an id of the client's own making to each subscribe call.
	ClientID bool `yaml:"clientID,omitempty" json:"clientID,omitempty"`
}

// smithery checks what a lane of Smithery's triggers may not have: there is
// nothing but webhooks, whose life is the server's to choose.
func (c *checker) smithery(path string, l *Lane) {
	if l.Mode == "webhook" && l.Webhook.TTL != "default" {
		c.bad(path+".webhook.ttl", "system smithery has no wish for a ttl", "remove it; the life of a subscription is the server's to choose")
	}
	if l.MaxAge != 0 {
		c.bad(path+".maxAge", "system smithery has no replay", "remove it")
	}
}
