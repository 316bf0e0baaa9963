package eventmeter_test

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/loadgen/systems"
)

var update = flag.Bool("update", false, "write the field tables of docs/ again")

// fieldDoc is a page of docs/ that lists the fields of a Go type, and of those
// that it is made of, with their doc comments.
type fieldDoc struct {
	page, dir, root, tag, intro string
}

var fieldDocs = []fieldDoc{
	{"docs/result.md", "results", "Result", "json", `# result.json

Schema ` + "`eventmeter.result/1`" + `. Counts of a lane are pairs of a subscription and an emission. A result is read
strictly: an unknown field, another schema, and wrong sums are refused. [figures.md](figures.md) defines each figure;
[endings.md](endings.md) describes the result of a run that ended early, and checkpoints.
`},
	{"docs/capacity-json.md", "results", "Capacity", "json", `# capacity.json

Schema ` + "`eventmeter.capacity/1`" + `, written by ` + "`eventmeter capacity`" + ` beside the archives of its steps,
each a complete run with a [result.json](result.md). It is read strictly: an unknown field,
another schema, and a step that does not agree with its archive are refused. [capacity.md](capacity.md) defines each figure.
`},
	{"docs/check-json.md", "results", "Check", "json", `# The JSON of a check

Schema ` + "`eventmeter.check/1`" + `, printed by ` + "`eventmeter check --format json`" + `.
[conformance.md](conformance.md) says how each row is judged.
`},
	{"docs/profile.md", "profiles", "Profile", "yaml", `# Profiles

A profile is one YAML file. It is read strictly: an unknown or repeated key, a value without its unit or out of range,
and a key that has no effect without another key are errors, reported with their line. Write durations
as ` + "`250ms`, `10s`, `1h30m`" + `, rates as ` + "`20/s`, `300/m`, `3600/h`" + ` or a number of events per second.
Override any value on the command line by its path:
` + "`--set phases.measure=30s`, `--set lanes.push.subscriptions=1000`, `--set 'lanes.*.http=h2c'`" + `.

Another target (` + "`--target`, `--command`, `--set target.url=…`" + `) replaces the embedded target and discards all settings of
` + "`target.embedded`" + ` in the file.

A file has at most 1 MiB, 20,000 YAML tokens, 64 levels, 1,000 lanes and 200 cases. The output of the templates of
` + "`arguments`" + ` or ` + "`payload`" + ` has at most 1 MiB in total. The format of a ` + "`printf`" + ` is in quotes, with at most
64 verbs and widths of at most three digits; its output has at most 64 KiB.

Run ` + "`eventmeter profiles show compare`" + ` to print a commented profile; with ` + "`--set`" + ` it prints the changed
profile, comments included. [commands.md](commands.md) describes the flags that change profiles, and how an editor
completes them.
`},
}

// TestFieldDocs holds the field tables of docs/ to the code. Run it with
// -update to write them again.
func TestFieldDocs(t *testing.T) {
	for _, d := range fieldDocs {
		want, err := d.render()
		must(t, err)
		if *update {
			must(t, os.WriteFile(d.page, []byte(want), 0o644))
		}
		got, err := os.ReadFile(d.page)
		must(t, err)
		if string(got) != want {
			t.Errorf("%s does not say what %s has; run go test . -run TestFieldDocs -update", d.page, d.dir)
		}
	}
}

// render walks the types breadth first, so that the page reads from the whole
// to its parts.
func (d fieldDoc) render() (string, error) {
	types, err := structsOf(d.dir)
	if err != nil {
		return "", err
	}
	blocks, err := structsOf("internal/settings")
	if err != nil {
		return "", err
	}
	for name, s := range blocks {
		if _, own := types[name]; !own {
			types[name] = s
		}
	}
	var b strings.Builder
	b.WriteString(d.intro)
	seen := map[string]bool{d.root: true}
	for queue := []string{d.root}; len(queue) > 0; queue = queue[1:] {
		s := types[queue[0]]
		if queue[0] != d.root {
			fmt.Fprintf(&b, "\n## %s\n", queue[0])
		}
		name, _, _ := strings.Cut(queue[0], " ")
		fmt.Fprintf(&b, "\n%s\n\n| key | | |\n|---|---|---|\n", sentence(s.doc, name))
		list, err := embedded(s.fields.List)
		if err != nil {
			return "", err
		}
		for _, f := range list {
			if of, ok := f.Type.(*ast.SelectorExpr); ok && of.Sel.Name == "Settings" {
				rows, names, err := settingsOf(types)
				if err != nil {
					return "", err
				}
				b.WriteString(rows)
				queue = append(queue, names...)
				continue
			}
			if f.Tag == nil {
				continue
			}
			text, err := strconv.Unquote(f.Tag.Value)
			if err != nil {
				return "", err
			}
			tag := reflect.StructTag(text)
			key, _, _ := strings.Cut(cmp.Or(tag.Get(d.tag), tag.Get("json")), ",")
			if key == "" || key == "-" {
				continue
			}
			kind, part := kindOf(f.Type)
			if _, ok := types[part]; ok {
				kind = strings.Replace(kind, part, "["+part+"](#"+strings.ToLower(part)+")", 1)
				if !seen[part] {
					seen[part] = true
					queue = append(queue, part)
				}
			}
			doc := strings.TrimSpace(f.Doc.Text() + " " + f.Comment.Text())
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", key, kind, strings.ReplaceAll(strings.Join(strings.Fields(doc), " "), "|", `\|`))
		}
	}
	return b.String(), nil
}

// embedded puts the fields of a struct of another package, which is embedded, in
// its place.
func embedded(list []*ast.Field) ([]*ast.Field, error) {
	var out []*ast.Field
	for _, f := range list {
		of, ok := f.Type.(*ast.SelectorExpr)
		if !ok || f.Names != nil {
			out = append(out, f)
			continue
		}
		dir := of.X.(*ast.Ident).Name
		if _, err := os.Stat(dir); err != nil {
			dir = filepath.Join("sinks", dir)
		}
		types, err := structsOf(dir)
		if err != nil {
			return nil, err
		}
		out = append(out, types[of.Sel.Name].fields.List...)
	}
	return out, nil
}

// settingsOf adds the settings that the drivers declare to the types, and returns
// their rows in the table of a lane, and what they are called.
func settingsOf(types map[string]structDoc) (rows string, names []string, err error) {
	for _, of := range systems.Table {
		if of.Settings == nil {
			continue
		}
		set := of.Settings("")
		t := reflect.TypeOf(set).Elem()
		declared, err := structsOf(strings.TrimPrefix(t.PkgPath(), module+"/"))
		if err != nil {
			return "", nil, err
		}
		name := t.Name() + " of " + of.Name
		types[name] = declared[t.Name()]
		names = append(names, name)
		rows += fmt.Sprintf(
			"| `%s` | [%s](#%s) | settings of a lane of system %s |\n",
			set.Key(),
			t.Name(),
			strings.ReplaceAll(strings.ToLower(name), " ", "-"),
			of.Name,
		)
	}
	return rows, names, nil
}

type structDoc struct {
	doc    string
	fields *ast.FieldList
}

func structsOf(dir string) (map[string]structDoc, error) {
	out := map[string]structDoc{}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, decl := range file.Decls {
			g, ok := decl.(*ast.GenDecl)
			if !ok || g.Tok != token.TYPE {
				continue
			}
			for _, spec := range g.Specs {
				ts := spec.(*ast.TypeSpec)
				if s, ok := ts.Type.(*ast.StructType); ok && ts.Name.IsExported() {
					out[ts.Name.Name] = structDoc{g.Doc.Text(), s.Fields}
				}
			}
		}
	}
	return out, nil
}

// kindOf names a field's type for people, and the Go type that it is made of.
func kindOf(e ast.Expr) (kind, part string) {
	switch e := e.(type) {
	case *ast.StarExpr:
		return kindOf(e.X)
	case *ast.ArrayType:
		kind, part = kindOf(e.Elt)
		return "list of " + kind, part
	case *ast.MapType:
		kind, part = kindOf(e.Value)
		return kind + " by name", part
	case *ast.SelectorExpr:
		if name, ok := map[string]string{"Duration": "duration", "Time": "time", "Rate": "rate", "RawMessage": "object"}[e.Sel.Name]; ok {
			return name, ""
		}
		return kindOf(e.Sel)
	case *ast.Ident:
		if name, ok := map[string]string{
			"string": "text", "int": "number", "int64": "number", "uint64": "number", "float64": "number",
			"bool": "true or false", "any": "any value", "Nanos": "nanoseconds", "Command": "list of text, or text",
			"Conditions": "list of text, or text", "LeakVerdict": "text", "Rate": "rate", "Bytes": "amount of memory",
		}[e.Name]; ok {
			return name, ""
		}
		return e.Name, e.Name
	}
	return "value", ""
}

// sentence turns "Lane is the figures of …" into "The figures of …".
func sentence(doc, name string) string {
	text := strings.Join(strings.Fields(doc), " ")
	for _, verb := range []string{" is ", " are "} {
		if rest, ok := strings.CutPrefix(text, name+verb); ok {
			return strings.ToUpper(rest[:1]) + rest[1:]
		}
	}
	return text
}
