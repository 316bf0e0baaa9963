package mcpevents

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/eventmeter/eventmeter/internal/settings"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// notInScripts are settings that no script can set. A script has the secret itself,
// and a refresh token works only once while every VU has a Client of its own.
var notInScripts = map[string]bool{"secretEnv": true, "refreshTokenFile": true}

// principalMark is replaced by the number of a principal.
const principalMark = "{principal}"

// oauthOf reads how principals get expiring tokens; nil = they do not.
func oauthOf(raw json.RawMessage) (*mcpclient.OAuth, error) {
	if raw == nil || string(raw) == "null" {
		return nil, nil
	}
	var given map[string]json.RawMessage
	if json.Unmarshal(raw, &given) != nil {
		return nil, errors.New("options: oauth: give an object")
	}
	var secret string
	if err := json.Unmarshal(given["secret"], &secret); given["secret"] != nil && err != nil {
		return nil, fmt.Errorf("options: %s", blame("oauth.secret", err))
	}
	delete(given, "secret")
	var set settings.OAuth
	if err := readObject(reflect.ValueOf(&set), "oauth", given, notInScripts); err != nil {
		return nil, err
	}
	set.Fill()
	switch {
	case set.ClientID == "" || secret == "":
		return nil, errors.New("options: oauth: give clientId and secret")
	case set.Principals > 1 && !strings.Contains(set.ClientID, principalMark):
		return nil, fmt.Errorf("options: oauth: all %d principals would be the same: put %s into clientId", set.Principals, principalMark)
	case set.Auth != "" && set.TokenURL == "":
		return nil, errors.New("options: oauth: auth has no effect without tokenURL: the issuer's metadata say it")
	}
	o := mcpclient.OAuthOf(&set, func(i int) string { return strings.ReplaceAll(set.ClientID, principalMark, strconv.Itoa(i)) })
	o.Secret = secret
	return o, nil
}
