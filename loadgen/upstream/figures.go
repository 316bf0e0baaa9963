package upstream

import "github.com/eventmeter/eventmeter/internal/figure"

// FigureTables declare the figures of each kind of upstream.
var FigureTables = figure.Tables{
	{Name: "feed", Figures: []figure.Figure{
		{Name: "feedRequests", Help: "requests of the target that were answered: the sum of the next five"},
		{Name: "feedWithChanges", Help: "answers with changes"},
		{Name: "feedEmpty", Help: "answers without a change"},
		{Name: "feedNotModified", Help: "answers that nothing was modified"},
		{Name: "feedGone", Help: "answers that a position is gone"},
		{Name: "feedBadRequests", Help: "requests that were refused"},
		{Name: "feedServed", Help: "changes in answers"},
		{Name: "feedRepeated", Help: "changes in answers that had been served before"},
		{Name: "feedBytes", Unit: "bytes", Help: "bytes of the answers' bodies"},
		{Name: "feedUnfetched", Help: "measured changes that were never fetched"},
		figure.Duration("feedLag", "from a change being available until the first answer with it was written"),
	}},
	{Name: "tool", Figures: []figure.Figure{
		{Name: "toolErrors", Help: "calls whose result says isError"},
		{Name: "toolRefusals", Help: "calls that were refused in any other way"},
		{Name: "toolUnanswered", Help: "calls without an answer"},
	}},
}
