package refserver

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// subscriptionPage is how many subscription:// resources a page lists.
const subscriptionPage = 1000

// subscriptionCursor begins the cursors of the pages that hold them. They come
// after the last page of the SDK's own.
const subscriptionCursor = "subscriptions:"

// describe adds the event resources to the SDK's lists, and to each principal's
// list its own subscriptions.
func (rs *resources) describe(server *mcp.Server) {
	for _, t := range rs.server.broker.order {
		kind := t.kind
		uri := eventScheme + kind.name
		meta := mcp.Meta{"eventSchema": kind.payload, "webhookType": kind.name}
		server.AddResource(&mcp.Resource{
			URI: uri, Name: kind.name, Description: kind.description, MIMEType: "application/json", Meta: meta,
		}, rs.read)
		if kind.filter == "" || kind.owned {
			continue
		}
		server.AddResourceTemplate(&mcp.ResourceTemplate{
			URITemplate: uri + "/{" + kind.filter + "}", Name: kind.name, MIMEType: "application/json",
			Description: kind.description,
			Meta: mcp.Meta{"eventSchema": kind.payload, "webhookType": kind.name, "paramsSchema": map[string]any{
				"type": "object", "required": []string{kind.filter},
				"properties": map[string]any{kind.filter: map[string]any{"type": "string"}},
			}},
		}, rs.read)
	}
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			switch r := req.(type) {
			case *mcp.ListResourcesRequest:
				return rs.list(ctx, method, r, next)
			case *mcp.ReadResourceRequest:
				if r.Params != nil && strings.HasPrefix(r.Params.URI, subscriptionScheme) {
					return rs.read(ctx, r)
				}
			}
			return next(ctx, method, req)
		}
	})
}

func principalOf(req mcp.Request) string {
	extra := req.GetExtra()
	if extra == nil {
		return ""
	}
	return bearer(&http.Request{Header: extra.Header})
}

// list adds the caller's subscriptions behind the resources.
func (rs *resources) list(ctx context.Context, method string, req *mcp.ListResourcesRequest, next mcp.MethodHandler) (mcp.Result, error) {
	mine := rs.registered(principalOf(req))
	out := &mcp.ListResourcesResult{Resources: []*mcp.Resource{}}
	if req.Params != nil && strings.HasPrefix(req.Params.Cursor, subscriptionCursor) {
		last := strings.TrimPrefix(req.Params.Cursor, subscriptionCursor)
		for i, h := range mine {
			if h.uri == last {
				mine = mine[i+1:]
				break
			}
		}
	} else {
		result, err := next(ctx, method, req)
		list, ok := result.(*mcp.ListResourcesResult)
		if err != nil || !ok || list.NextCursor != "" || len(mine) == 0 {
			return result, err
		}
		copied := *list // the SDK's may be shared
		copied.Resources = append([]*mcp.Resource(nil), list.Resources...)
		out = &copied
	}
	for i, h := range mine {
		if i == subscriptionPage {
			out.NextCursor = subscriptionCursor + mine[i-1].uri
			break
		}
		out.Resources = append(out.Resources, &mcp.Resource{
			URI: h.uri, Name: strings.TrimPrefix(h.uri, subscriptionScheme), MIMEType: "application/json",
			Description: "An active webhook subscription.",
			Meta:        mcp.Meta{"eventUris": h.uris, "targetUri": h.target},
		})
	}
	return out, nil
}

// read answers resources/read: of a subscription what was registered, without
// the secret; of an event, whose content is what is delivered, its schema.
func (rs *resources) read(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	uri, principal := req.Params.URI, principalOf(req)
	var content any
	if strings.HasPrefix(uri, subscriptionScheme) {
		rs.mu.Lock()
		h := rs.hooks[uri]
		rs.mu.Unlock()
		if h == nil || h.principal != principal {
			return nil, mcp.ResourceNotFoundError(uri)
		}
		content = h.registration()
	} else {
		t, _, wrong := rs.eventResource(uri, principal)
		if wrong != nil {
			return nil, mcp.ResourceNotFoundError(uri)
		}
		content = map[string]any{"name": t.kind.name, "eventSchema": t.kind.payload}
	}
	text, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, MIMEType: "application/json", Text: string(text)}}}, nil
}
