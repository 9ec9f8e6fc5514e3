{{- define "fsynctop.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "fsynctop.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains (include "fsynctop.name" .) .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "fsynctop.name" .) | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "fsynctop.selectorLabels" -}}
app.kubernetes.io/name: {{ include "fsynctop.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "fsynctop.labels" -}}
{{ include "fsynctop.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* Whether anybody but the pod itself can reach the exporter: not empty if so. */ -}}
{{- define "fsynctop.isExposed" -}}
{{- if or .Values.webConfig.secretName .Values.exposeUnprotected }}true{{ end }}
{{- end }}

{{- define "fsynctop.listen" -}}
{{- if include "fsynctop.isExposed" . }}0.0.0.0{{ else }}127.0.0.1{{ end }}:{{ .Values.port }}
{{- end }}

{{- define "fsynctop.image" -}}
{{- $repository := required "image.repository is not set: push what `make image` makes to a registry of yours, and name it here without tag" .Values.image.repository -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" $repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" $repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}
