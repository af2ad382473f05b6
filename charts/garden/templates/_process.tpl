{{/*
A component that is elected, as all its objects: a dictionary of root, role, name, command, values, version, kind.
*/}}
{{- define "garden.process" -}}
{{- $config := include "garden.config" (dict "version" .version "kind" .kind "config" .values.config) -}}
{{- $server := .values.config.server -}}
{{- $of := merge (dict "replicas" .values.replicaCount "ports" (uniq (compact (list ($server.webhooks | default dict).port $server.healthProbes.port $server.metrics.port)))) . -}}
{{ include "garden.account" $of }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .name }}-config
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "garden.labels" $of | nindent 4 }}
data:
  config.yaml: |
    {{- $config | nindent 4 }}
{{- include "garden.budget" $of }}
{{- include "garden.policy" $of }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "garden.labels" $of | nindent 4 }}
spec:
  replicas: {{ .values.replicaCount }}
  revisionHistoryLimit: 2
  selector:
    matchLabels:
      {{- include "garden.selector" $of | nindent 6 }}
  template:
    metadata:
      annotations:
        {{- include "garden.annotations" (dict "port" $server.metrics.port "config" $config "more" .values.podAnnotations) | nindent 8 }}
      labels:
        {{- include "garden.labels" $of | nindent 8 }}
        {{- with .values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      serviceAccountName: {{ .name }}
      automountServiceAccountToken: true
      priorityClassName: gardener-garden-system-{{ .priority }}
      {{- include "garden.pod" $of | trim | nindent 6 }}
      containers:
      - name: {{ .name }}
        {{- include "garden.container" .root | nindent 8 }}
        args:
        - {{ .command }}
        - --config=/etc/{{ .name }}/config/config.yaml
        ports:
        {{- with $server.webhooks }}
        - name: webhooks
          containerPort: {{ .port }}
          protocol: TCP
        {{- end }}
        - name: health
          containerPort: {{ $server.healthProbes.port }}
          protocol: TCP
        - name: metrics
          containerPort: {{ $server.metrics.port }}
          protocol: TCP
        {{- include "garden.probes" . | nindent 8 }}
        {{- with .values.resources }}
        resources:
          {{- toYaml . | nindent 10 }}
        {{- end }}
        securityContext:
          {{- include "garden.securityContext" . | nindent 10 }}
        volumeMounts:
        - name: config
          mountPath: /etc/{{ .name }}/config
          readOnly: true
        {{- if .tls }}
        - name: tls
          mountPath: /etc/{{ .name }}/tls
          readOnly: true
        {{- end }}
      volumes:
      - name: config
        configMap:
          name: {{ .name }}-config
      {{- with .tls }}
      - name: tls
        secret:
          secretName: {{ . }}
      {{- end }}
{{- end }}
