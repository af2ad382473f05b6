package main

import (
	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/engine"
)

// rendered is what Helm's engine makes of a chart with that one template.
func rendered(asked request, data any) ([]byte, error) {
	made := &chart.Chart{
		Metadata:  &chart.Metadata{Name: "c", Version: "1.2.3", APIVersion: "v2"},
		Templates: []*common.File{{Name: "templates/" + asked.Name, Data: []byte(asked.Text)}},
	}
	values := common.Values{
		"Values":  data,
		"Release": map[string]any{"Name": "r", "Namespace": "n"},
		"Chart":   made.Metadata,
	}
	output, err := engine.Engine{Strict: asked.MissingKey == "error"}.Render(made, values)
	return []byte(output["c/templates/"+asked.Name]), err
}
