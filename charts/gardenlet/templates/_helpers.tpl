{{- define "gardenlet.selector" -}}
app: gardener
role: gardenlet
{{- end }}

{{- define "gardenlet.labels" -}}
{{ include "gardenlet.selector" . }}
app.kubernetes.io/name: gardenlet
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" | quote }}
{{- end }}

{{- define "gardenlet.image" -}}
{{- $image := .Values.image -}}
{{- $tag := $image.tag | default (printf "v%s" .Chart.AppVersion) -}}
{{- if $image.ref -}}
{{ $image.ref }}
{{- else if hasPrefix "sha256:" $tag -}}
{{ $image.repository }}@{{ $tag }}
{{- else -}}
{{ $image.repository }}:{{ $tag }}
{{- end -}}
{{- end }}

{{/* Where the garden's kubeconfig comes from: "inline", "secret" or "bootstrap". */}}
{{- define "gardenlet.gardenAccess" -}}
{{- $connection := .Values.config.gardenClientConnection | default dict -}}
{{- if $connection.kubeconfig -}}
inline
{{- else if .Values.gardenKubeconfigSecret.name -}}
secret
{{- else if and $connection.bootstrapKubeconfig $connection.kubeconfigSecret -}}
bootstrap
{{- else if $connection.bootstrapKubeconfig -}}
{{- fail "config.gardenClientConnection.kubeconfigSecret is missing: name the Secret (name, namespace) in which gardenlet stores the kubeconfig that it gets by bootstrapKubeconfig" -}}
{{- else -}}
{{- fail "no kubeconfig of the garden: give one of config.gardenClientConnection.kubeconfig, config.gardenClientConnection.bootstrapKubeconfig with kubeconfigSecret, or gardenKubeconfigSecret.name" -}}
{{- end -}}
{{- end }}

{{/* A Secret's name changes with its content, so that a change rolls the Deployment. */}}
{{- define "gardenlet.gardenSecret" -}}
{{- if eq (include "gardenlet.gardenAccess" .) "secret" -}}
{{ .Values.gardenKubeconfigSecret.name }}
{{- else -}}
gardenlet-kubeconfig-garden-{{ .Values.config.gardenClientConnection.kubeconfig | sha256sum | trunc 8 }}
{{- end -}}
{{- end }}

{{- define "gardenlet.gardenKey" -}}
{{- if eq (include "gardenlet.gardenAccess" .) "secret" -}}
{{ .Values.gardenKubeconfigSecret.key }}
{{- else -}}
kubeconfig
{{- end -}}
{{- end }}

{{- define "gardenlet.seedKubeconfig" -}}
{{- ((.Values.config.seedClientConnection | default dict).kubeconfig) | default "" -}}
{{- end }}

{{- define "gardenlet.seedSecret" -}}
gardenlet-kubeconfig-seed-{{ include "gardenlet.seedKubeconfig" . | sha256sum | trunc 8 }}
{{- end }}

{{/*
The file that gardenlet reads. Values hold kubeconfigs as texts, the file their paths; of a bootstrap kubeconfig it holds
the Secret's name. gardener-resource-manager runs in gardenlet's own image unless images.program names another one; the
images of the value imageVectorOverwrite become images.overwrites. server.healthProbes.enable is a value of Gardener's chart
that is a field of no configuration here.
*/}}
{{- define "gardenlet.config" -}}
{{- $access := include "gardenlet.gardenAccess" . -}}
{{- $config := deepCopy .Values.config -}}
{{- $garden := deepCopy ($config.gardenClientConnection | default dict) -}}
{{- if eq $access "bootstrap" -}}
{{- $bootstrap := $garden.bootstrapKubeconfig.secretRef | default $garden.bootstrapKubeconfig -}}
{{- $_ := set $garden "bootstrapKubeconfig" (pick $bootstrap "name" "namespace") -}}
{{- else -}}
{{- $garden = omit $garden "bootstrapKubeconfig" "kubeconfigSecret" "kubeconfigValidity" -}}
{{- $_ := set $garden "kubeconfig" "/etc/gardenlet/kubeconfig-garden/kubeconfig" -}}
{{- end -}}
{{- $_ := set $config "gardenClientConnection" $garden -}}
{{- if include "gardenlet.seedKubeconfig" . -}}
{{- $_ := set $config.seedClientConnection "kubeconfig" "/etc/gardenlet/kubeconfig-seed/kubeconfig" -}}
{{- end -}}
{{- with ($config.server | default dict).healthProbes -}}
{{- $_ := set $config.server "healthProbes" (omit . "enable") -}}
{{- end -}}
{{- $orangery := deepCopy ($config.orangery | default dict) -}}
{{- $images := $orangery.images | default dict -}}
{{- if not $images.program -}}
{{- $_ := set $images "program" (include "gardenlet.image" .) -}}
{{- end -}}
{{- with .Values.imageVectorOverwrite -}}
{{- $vector := fromYaml . -}}
{{- if not (kindIs "slice" $vector.images) -}}
{{- fail (printf "imageVectorOverwrite has no list `images` in YAML, see values.yaml %s" ($vector.Error | default "")) -}}
{{- end -}}
{{- $_ := set $images "overwrites" $vector.images -}}
{{- end -}}
{{- $_ := set $orangery "images" $images -}}
{{- $_ := set $config "orangery" $orangery -}}
{{- $kind := dict "apiVersion" "gardenlet.config.gardener.cloud/v1alpha1" "kind" "GardenletConfiguration" -}}
{{- toYaml (merge $kind $config) -}}
{{- end }}

{{- define "gardenlet.zones" -}}
{{- $spec := .Values.config.seedConfig.spec | default dict -}}
{{- len (($spec.provider | default dict).zones | default (list "")) -}}
{{- end }}
