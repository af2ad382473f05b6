{{/* Labels that selectors match: of a component's name. */}}
{{- define "garden.selector" -}}
app: gardener
role: {{ .role }}
{{- end }}

{{- define "garden.common" -}}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" | quote }}
{{- end }}

{{/* All labels of a component's objects: a dictionary of root and role. */}}
{{- define "garden.labels" -}}
{{ include "garden.selector" . }}
{{ include "garden.common" .root }}
{{- end }}

{{- define "garden.image" -}}
{{- $tag := .tag | default .version -}}
{{- if .ref -}}
{{ .ref }}
{{- else if hasPrefix "sha256:" $tag -}}
{{ .repository }}@{{ $tag }}
{{- else -}}
{{ .repository }}:{{ $tag }}
{{- end -}}
{{- end }}

{{/* What all pods have beside their containers and volumes: a dictionary of root, role and replicas. */}}
{{- define "garden.pod" -}}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
{{- toYaml . | nindent 0 }}
{{- end }}
{{- with .root.Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.tolerations }}
tolerations:
{{- toYaml . | nindent 0 }}
{{- end }}
{{- if gt (int .replicas) 1 }}
topologySpreadConstraints:
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- include "garden.selector" . | nindent 6 }}
  matchLabelKeys: [pod-template-hash]
{{- if gt (int .root.Values.zones) 1 }}
- maxSkew: 1
  minDomains: {{ min (int .replicas) (int .root.Values.zones) }}
  topologyKey: topology.kubernetes.io/zone
  whenUnsatisfiable: DoNotSchedule
  labelSelector:
    matchLabels:
      {{- include "garden.selector" . | nindent 6 }}
  matchLabelKeys: [pod-template-hash]
{{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
{{- end }}

{{- define "garden.container" -}}
image: {{ include "garden.image" (merge (dict "version" (printf "v%s" .Chart.AppVersion)) .Values.image) | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}

{{- define "garden.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* A document of its own, with the line before it. */}}
{{- define "garden.budget" -}}
{{- if gt (int .replicas) 1 }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "garden.labels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      {{- include "garden.selector" . | nindent 6 }}
  unhealthyPodEvictionPolicy: AlwaysAllow
{{- end }}
{{- end }}

{{- define "garden.account" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "garden.labels" . | nindent 4 }}
automountServiceAccountToken: false
{{- end }}

{{/* Probes of a process with a plain port of health. */}}
{{- define "garden.probes" -}}
livenessProbe:
  httpGet:
    path: /healthz
    port: health
    scheme: HTTP
  initialDelaySeconds: 5
  periodSeconds: 10
  timeoutSeconds: 5
readinessProbe:
  httpGet:
    path: /readyz
    port: health
    scheme: HTTP
  periodSeconds: 5
  timeoutSeconds: 5
{{- end }}

{{/* Admits connections to these ports of a component: a dictionary of root, role, name and ports. */}}
{{- define "garden.policy" -}}
{{- if .root.Values.networkPolicies.enabled }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "garden.labels" . | nindent 4 }}
spec:
  podSelector:
    matchLabels:
      {{- include "garden.selector" . | nindent 6 }}
  ingress:
  - ports:
    {{- range .ports }}
    - port: {{ . }}
      protocol: TCP
    {{- end }}
  egress:
  - {}
  policyTypes:
  - Ingress
  - Egress
{{- end }}
{{- end }}

{{/* A component's configuration: a dictionary of version, kind and config. */}}
{{- define "garden.config" -}}
{{- toYaml (merge (dict "apiVersion" .version "kind" .kind) .config) -}}
{{- end }}

{{- define "garden.annotations" -}}
prometheus.io/scrape: "true"
prometheus.io/scheme: http
prometheus.io/port: {{ .port | quote }}
checksum/config: {{ .config | sha256sum }}
{{- with .more }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "garden.apiserver.secret" -}}
{{- .Values.apiserver.tls.secretName | default "garden-apiserver-tls" -}}
{{- end }}

{{- define "garden.admission.secret" -}}
{{- .Values.admission.tls.secretName | default "gardener-admission-controller-tls" -}}
{{- end }}

{{/* Whether etcd is spoken to with TLS, and by which Secret. */}}
{{- define "garden.etcd.secret" -}}
{{- $etcd := .Values.apiserver.etcd -}}
{{- if .Values.etcd.enabled -}}
garden-etcd-client-tls
{{- else if $etcd.secretName -}}
{{ $etcd.secretName }}
{{- else if $etcd.caBundle -}}
garden-apiserver-etcd
{{- end -}}
{{- end }}

{{- define "garden.etcd.servers" -}}
{{- if .Values.etcd.enabled -}}
https://garden-etcd.{{ .Release.Namespace }}.svc:2379
{{- else if .Values.apiserver.etcd.servers -}}
{{ join "," .Values.apiserver.etcd.servers }}
{{- else -}}
{{- fail "apiserver.etcd.servers is missing: name the client URLs of an etcd, or set etcd.enabled to run one of one member here" -}}
{{- end -}}
{{- end }}

{{/* Names of a Service in certificates. */}}
{{- define "garden.names" -}}
{{- $full := printf "%s.%s" .service .namespace -}}
{{- list (printf "%s.svc" $full) (printf "%s.svc.cluster.local" $full) $full .service | toJson -}}
{{- end }}
