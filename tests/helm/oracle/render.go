package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	release "helm.sh/helm/v4/pkg/release/v1"
)

// rendering is a chart with the options of `helm template`.
type rendering struct {
	chartWithValues
	IsUpgrade   bool
	KubeVersion string
	APIVersions []string
	IncludeCRDs bool
}

// template is what `helm template r chart -n n` prints, then the notes.
func template(req *request) (string, error) {
	var with rendering
	if err := json.Unmarshal(req.Value, &with); err != nil {
		return "", err
	}
	from, user, err := with.read()
	if err != nil {
		return "", err
	}
	return with.printed(from, user)
}

// printed is what `helm template r chart -n n` prints, then the notes.
func (with rendering) printed(from *chart.Chart, user map[string]any) (string, error) {
	install := action.NewInstall(action.NewConfiguration())
	install.DryRunStrategy = action.DryRunClient
	install.ReleaseName = "r"
	install.Namespace = "n"
	install.Replace = true
	install.IsUpgrade = with.IsUpgrade
	install.APIVersions = common.VersionSet(with.APIVersions)
	install.IncludeCRDs = with.IncludeCRDs
	if with.KubeVersion != "" {
		version, err := common.ParseKubeVersion(with.KubeVersion)
		if err != nil {
			return "", fmt.Errorf("invalid kube version '%s': %w", with.KubeVersion, err)
		}
		install.KubeVersion = version
	}
	made, err := install.Run(from, user)
	if err != nil {
		return "", err
	}
	rendered, ok := made.(*release.Release)
	if !ok {
		return "", fmt.Errorf("the release is a %T", made)
	}
	var out strings.Builder
	fmt.Fprintln(&out, strings.TrimSpace(rendered.Manifest))
	for _, hook := range rendered.Hooks {
		fmt.Fprintf(&out, "---\n# Source: %s\n%s\n", hook.Path, hook.Manifest)
	}
	if rendered.Info.Notes != "" {
		fmt.Fprintf(&out, "NOTES:\n%s", rendered.Info.Notes)
	}
	return out.String(), nil
}

// refusal is what Helm puts before the messages of its library for schemas.
const refusal = "values don't meet the specifications of the schema(s) in the following chart(s):\n"

// schema is whether the schemas of a chart, and of the charts in it, accept its values. The messages are those of a library and
// are left out.
func schema(req *request) (string, error) {
	from, user, err := processed(req)
	if err != nil {
		return "", err
	}
	_, err = util.ToRenderValues(from, user, common.ReleaseOptions{}, nil)
	if err == nil {
		return "accepted", nil
	}
	if _, is := strings.CutPrefix(err.Error(), refusal); is {
		return "refused", nil
	}
	return "", err
}

// versions are the API versions that Helm assumes without a cluster.
func versions(*request) (string, error) {
	text, err := json.Marshal(common.DefaultVersionSet)
	return string(text), err
}
