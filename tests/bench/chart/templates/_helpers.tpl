{{- define "name" -}}
{{- .Chart.Name -}}
{{- end -}}

{{- define "labels.app" -}}
app.kubernetes.io/name: {{ include "name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "labels" -}}
helm.sh/chart: {{ include "name" . }}
{{ include "labels.app" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "image" -}}
{{- if hasPrefix "sha256:" .tag -}}
{{ .repository }}@{{ .tag }}
{{- else -}}
{{ .repository }}:{{ .tag }}
{{- end -}}
{{- end -}}

{{- define "topologyAwareRouting" -}}
{{- $seed := .Values.gardener.seed -}}
{{- if and $seed.spec (dig "settings" "topologyAwareRouting" "enabled" false $seed.spec) -}}
service.kubernetes.io/topology-mode: auto
{{- end -}}
{{- end -}}
