package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/cli/values"
	"helm.sh/helm/v4/pkg/engine"
	"helm.sh/helm/v4/pkg/getter"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
)

// options are those of Helm's command line that make values. Files maps the names of files to what they hold.
type options struct {
	Files   map[string]string
	Values  []string
	JSON    []string
	Set     []string
	String  []string
	File    []string
	Literal []string
}

// merged is the values that Helm's command line makes of its options, each number with its type.
func merged(req *request) (string, error) {
	var opts options
	if err := json.Unmarshal(req.Value, &opts); err != nil {
		return "", err
	}
	folder, err := os.MkdirTemp("", "helm-oracle")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(folder)
	for name, content := range opts.Files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			return "", err
		}
	}
	if err := os.Chdir(folder); err != nil {
		return "", err
	}
	from := values.Options{
		ValueFiles:    opts.Values,
		JSONValues:    opts.JSON,
		Values:        opts.Set,
		StringValues:  opts.String,
		FileValues:    opts.File,
		LiteralValues: opts.Literal,
	}
	made, err := from.MergeValues(getter.Providers{})
	if err != nil {
		return "", err
	}
	return tagged(made)
}

// tagged is JSON in which a float64 is {"$float": ...}.
func tagged(value any) (string, error) {
	text, err := json.Marshal(tag(value))
	return string(text), err
}

func tag(value any) any {
	switch value := value.(type) {
	case float64:
		return map[string]any{"$float": value}
	case []any:
		items := []any{}
		for _, item := range value {
			items = append(items, tag(item))
		}
		return items
	case common.Values:
		return tag(map[string]any(value))
	case map[string]any:
		items := map[string]any{}
		for key, item := range value {
			items[key] = tag(item)
		}
		return items
	default:
		return value
	}
}

// loadValues is the values of a values.yaml.
func loadValues(req *request) (string, error) {
	made, err := loader.LoadValues(bytes.NewReader(req.Text))
	if err != nil {
		return "", err
	}
	return tagged(made)
}

// manifests are the documents of rendered templates in install order, hooks first: path, kind, content, weight, events.
func manifests(req *request) (string, error) {
	files := map[string]string{}
	if err := json.Unmarshal(req.Value, &files); err != nil {
		return "", err
	}
	hooks, generic, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	if err != nil {
		return "", err
	}
	all := [][]string{}
	for _, hook := range hooks {
		events := []string{}
		for _, event := range hook.Events {
			events = append(events, event.String())
		}
		all = append(all, []string{hook.Path, hook.Kind, hook.Manifest, strconv.Itoa(hook.Weight), strings.Join(events, ",")})
	}
	for _, plain := range generic {
		all = append(all, []string{plain.Name, plain.Head.Kind, plain.Content, "", ""})
	}
	text, err := json.Marshal(all)
	return string(text), err
}

// loaded is a chart as it is shown.
type loaded struct {
	Metadata     *chart.Metadata   `json:"metadata"`
	Values       any               `json:"values"`
	Templates    map[string]string `json:"templates"`
	Files        map[string]string `json:"files"`
	CRDs         []string          `json:"crds"`
	Dependencies []loaded          `json:"dependencies"`
}

// load is the chart whose files Value names.
func load(req *request) (string, error) {
	loadedChart, err := fromFiles(req.Value)
	if err != nil {
		return "", err
	}
	return sorted(show(loadedChart))
}

// sorted is JSON with the fields of structs in the order of their names.
func sorted(of any) (string, error) {
	text, err := json.Marshal(of)
	if err != nil {
		return "", err
	}
	var value any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return "", err
	}
	text, err = json.Marshal(value)
	return string(text), err
}

func fromFiles(raw json.RawMessage) (*chart.Chart, error) {
	files := map[string]string{}
	if err := json.Unmarshal(raw, &files); err != nil {
		return nil, err
	}
	buffered := []*archive.BufferedFile{}
	for name, content := range files {
		buffered = append(buffered, &archive.BufferedFile{Name: name, Data: []byte(content)})
	}
	sort.Slice(buffered, func(i, j int) bool { return buffered[i].Name < buffered[j].Name })
	return loader.LoadFiles(buffered)
}

func show(from *chart.Chart) loaded {
	shown := loaded{
		Metadata:     from.Metadata,
		Values:       tag(from.Values),
		Templates:    named(from.Templates),
		Files:        named(from.Files),
		CRDs:         []string{},
		Dependencies: []loaded{},
	}
	for _, crd := range from.CRDs() {
		shown.CRDs = append(shown.CRDs, crd.Name)
	}
	for _, dependency := range from.Dependencies() {
		shown.Dependencies = append(shown.Dependencies, show(dependency))
	}
	sort.Slice(shown.Dependencies, func(i, j int) bool {
		return shown.Dependencies[i].Metadata.Name < shown.Dependencies[j].Metadata.Name
	})
	return shown
}

func named(files []*common.File) map[string]string {
	all := map[string]string{}
	for _, file := range files {
		all[file.Name] = string(file.Data)
	}
	return all
}

// loadArchive is the names of the files of a chart's archive with their sizes.
func loadArchive(req *request) (string, error) {
	files, err := archive.LoadArchiveFiles(bytes.NewReader(req.Text))
	if err != nil {
		return "", err
	}
	names := map[string]int{}
	for _, file := range files {
		names[file.Name] = len(file.Data)
	}
	text, err := json.Marshal(names)
	return string(text), err
}

// chartWithValues are the files of a chart, or where they are, and what the user sets.
type chartWithValues struct {
	Files  json.RawMessage
	Path   string
	Values json.RawMessage
}

// read is the chart of the request, and what the user sets.
func (with chartWithValues) read() (*chart.Chart, map[string]any, error) {
	from, err := with.chart()
	if err != nil {
		return nil, nil, err
	}
	set, err := typed(with.Values)
	if err != nil {
		return nil, nil, err
	}
	user, _ := set.(map[string]any)
	return from, user, nil
}

func (with chartWithValues) chart() (*chart.Chart, error) {
	if with.Path != "" {
		return loader.Load(with.Path)
	}
	return fromFiles(with.Files)
}

// processed is the chart of the request with its dependencies processed, and what the user sets.
func processed(req *request) (*chart.Chart, map[string]any, error) {
	var with chartWithValues
	if err := json.Unmarshal(req.Value, &with); err != nil {
		return nil, nil, err
	}
	from, user, err := with.read()
	if err != nil {
		return nil, nil, err
	}
	return from, user, chartutil.ProcessDependencies(from, user)
}

// coalesced are the values that the templates of a chart see, once its dependencies have been processed.
func coalesced(req *request) (string, error) {
	from, user, err := processed(req)
	if err != nil {
		return "", err
	}
	made, err := util.CoalesceValues(from, user)
	if err != nil {
		return "", err
	}
	return tagged(made)
}

// probe shows what a template sees.
const probe = `{{ toJson (dict "Values" .Values "Chart" .Chart "Template" .Template "Release" .Release "Subcharts" (keys .Subcharts | sortAlpha)) }}`

// scopes are what each template of a chart sees.
func scopes(req *request) (string, error) {
	from, user, err := processed(req)
	if err != nil {
		return "", err
	}
	release := common.ReleaseOptions{Name: "r", Namespace: "n", Revision: 1, IsInstall: true}
	top, err := util.ToRenderValues(from, user, release, nil)
	if err != nil {
		return "", err
	}
	probed(from)
	rendered, err := engine.Render(from, top)
	if err != nil {
		return "", err
	}
	all := map[string]json.RawMessage{}
	for name, text := range rendered {
		all[name] = json.RawMessage(text)
	}
	return sorted(all)
}

func probed(all *chart.Chart) {
	for _, template := range all.Templates {
		template.Data = []byte(probe)
	}
	for _, inner := range all.Dependencies() {
		probed(inner)
	}
}
