{{/*
A certificate of the chart's authority as JSON: crt, key, names, renewAfter. The one of the Secret stays while it is for
these names, of this authority and far from its end. A dictionary of root, ca (crt, and key where there is one to make),
secret, service.
*/}}
{{- define "garden.leaf" -}}
{{- $namespace := .root.Release.Namespace -}}
{{- $names := include "garden.names" (dict "service" .service "namespace" $namespace) | fromJsonArray -}}
{{- $old := lookup "v1" "Secret" $namespace .secret | default dict -}}
{{- $data := $old.data | default dict -}}
{{- $annotations := ($old.metadata | default dict).annotations | default dict -}}
{{- $renewAfter := get $annotations "orangery.dev/renew-after" -}}
{{- $isCurrent := gt $renewAfter (now | date "2006-01-02") -}}
{{- $isNamed := eq (get $annotations "orangery.dev/dns-names") (join "," $names) -}}
{{- $isOurs := eq (get $data "ca.crt") (b64enc .ca.Cert) -}}
{{- if and $isCurrent $isNamed $isOurs (get $data "tls.crt") (get $data "tls.key") -}}
{{- dict "crt" (get $data "tls.crt") "key" (get $data "tls.key") "names" (join "," $names) "renewAfter" $renewAfter | toJson -}}
{{- else -}}
{{- $days := .root.Values.certificates.generated -}}
{{- $cert := genSignedCertWithKey .service (list) $names (int $days.validityDays) .ca (genPrivateKey "ecdsa") -}}
{{- $hours := mul 24 (sub $days.validityDays $days.renewBeforeDays) -}}
{{- $until := now | dateModify (printf "+%dh" $hours) | date "2006-01-02" -}}
{{- dict "crt" (b64enc $cert.Cert) "key" (b64enc $cert.Key) "names" (join "," $names) "renewAfter" $until | toJson -}}
{{- end -}}
{{- end }}

{{/* A Secret of type kubernetes.io/tls: a dictionary of root, name, role, leaf, ca. */}}
{{- define "garden.leafSecret" -}}
apiVersion: v1
kind: Secret
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "garden.labels" . | nindent 4 }}
  annotations:
    orangery.dev/dns-names: {{ .leaf.names | quote }}
    orangery.dev/renew-after: {{ .leaf.renewAfter | quote }}
type: kubernetes.io/tls
data:
  ca.crt: {{ .ca.Cert | b64enc }}
  tls.crt: {{ .leaf.crt }}
  tls.key: {{ .leaf.key }}
{{- end }}

{{/* A Secret of type kubernetes.io/tls with given texts: a dictionary of root, name, role, crt, key. */}}
{{- define "garden.givenSecret" -}}
apiVersion: v1
kind: Secret
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "garden.labels" . | nindent 4 }}
type: kubernetes.io/tls
data:
  {{- with .ca }}
  ca.crt: {{ . | b64enc }}
  {{- end }}
  tls.crt: {{ .crt | b64enc }}
  tls.key: {{ .key | b64enc }}
{{- end }}

{{/* A Certificate of cert-manager: a dictionary of root, name, role, service. */}}
{{- define "garden.certificate" -}}
{{- $settings := .root.Values.certificates.certManager -}}
apiVersion: cert-manager.io/v1
kind: Certificate
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "garden.labels" . | nindent 4 }}
spec:
  secretName: {{ .name }}
  commonName: {{ .service }}
  dnsNames:
  {{- range include "garden.names" (dict "service" .service "namespace" .root.Release.Namespace) | fromJsonArray }}
  - {{ . }}
  {{- end }}
  duration: {{ $settings.duration }}
  renewBefore: {{ $settings.renewBefore }}
  usages: [digital signature, key encipherment, server auth, client auth]
  privateKey:
    algorithm: ECDSA
    size: 256
    rotationPolicy: Always
  issuerRef:
    {{- toYaml ($settings.issuerRef | default (dict "name" "garden-ca" "kind" "Issuer" "group" "cert-manager.io")) | nindent 4 }}
{{- end }}

{{/* The annotation by which cert-manager writes caBundle. */}}
{{- define "garden.inject" -}}
{{- if eq .root.Values.certificates.mode "certManager" -}}
cert-manager.io/inject-ca-from: {{ .root.Release.Namespace }}/{{ .certificate }}
{{- end -}}
{{- end }}
