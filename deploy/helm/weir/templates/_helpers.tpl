{{- define "weir.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{/* A StatefulSet labels its pods with its name and a hash: 52 of 63 letters are for the name. */}}
{{- define "weir.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains (include "weir.name" .) .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "weir.name" .) | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* What an object of ours is known by. */}}
{{- define "weir.selector" -}}
app.kubernetes.io/name: {{ include "weir.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "weir.labels" -}}
{{ include "weir.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* The pods that decide. */}}
{{- define "weir.pods" -}}
{{ include "weir.selector" . }}
app.kubernetes.io/component: daemon
{{- end -}}

{{/* What runs, by where counts are kept: memory, cluster or server. */}}
{{- define "weir.kind" -}}
{{- if .Values.store.existingSecret -}}
server
{{- else if or (not .Values.store.url) (hasPrefix "memory:" .Values.store.url) -}}
memory
{{- else if hasPrefix "cluster:" .Values.store.url -}}
cluster
{{- else -}}
server
{{- end -}}
{{- end -}}

{{- define "weir.replicas" -}}
{{- if kindIs "invalid" .Values.replicas -}}
{{- eq (include "weir.kind" .) "memory" | ternary 1 3 -}}
{{- else -}}
{{- .Values.replicas -}}
{{- end -}}
{{- end -}}

{{- define "weir.preStop" -}}
{{- if kindIs "invalid" .Values.preStopSeconds -}}
{{- eq (include "weir.kind" .) "memory" | ternary 0 5 -}}
{{- else -}}
{{- .Values.preStopSeconds -}}
{{- end -}}
{{- end -}}

{{- define "weir.grace" -}}
{{- if kindIs "invalid" .Values.terminationGracePeriodSeconds -}}
{{- add (include "weir.preStop" .) 20 -}}
{{- else -}}
{{- .Values.terminationGracePeriodSeconds -}}
{{- end -}}
{{- end -}}

{{- define "weir.adminSecret" -}}
{{- default (printf "%s-admin" (include "weir.fullname" .)) .Values.admin.existingSecret -}}
{{- end -}}
{{- define "weir.clusterSecret" -}}
{{- default (printf "%s-cluster" (include "weir.fullname" .)) .Values.cluster.existingSecret -}}
{{- end -}}
{{- define "weir.respSecret" -}}
{{- default (printf "%s-resp" (include "weir.fullname" .)) .Values.resp.existingSecret -}}
{{- end -}}
{{- define "weir.rulesConfigMap" -}}
{{- default (.Values.rules.files | empty | ternary "" (printf "%s-rules" (include "weir.fullname" .))) .Values.rules.existingConfigMap -}}
{{- end -}}
{{- define "weir.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{/* What the schema can't say: values that don't go together. */}}
{{- define "weir.check" -}}
{{- $kind := include "weir.kind" . -}}
{{- $replicas := include "weir.replicas" . | int -}}
{{- if and .Values.store.url .Values.store.existingSecret -}}
{{- fail "store.url and store.existingSecret: give one of them" -}}
{{- end -}}
{{- if regexMatch "://[^/@]*:[^/@]+@" .Values.store.url -}}
{{- fail "store.url has a password, and everybody who may read pods would see it: make a Secret of the URL (kubectl create secret generic weir-store --from-literal=url=URL) and give store.existingSecret in place of store.url" -}}
{{- end -}}
{{- if and .Values.rules.existingConfigMap .Values.rules.files -}}
{{- fail "rules.files and rules.existingConfigMap: give one of them" -}}
{{- end -}}
{{- if and (eq $kind "memory") (gt $replicas 1) -}}
{{- fail (printf "replicas: each of %d pods with counts in its memory would let pass what the rules say: give replicas 1, or store.url cluster: or that of a server" $replicas) -}}
{{- end -}}
{{- if and (eq $kind "cluster") (lt $replicas 3) -}}
{{- fail (printf "replicas: %d nodes can't tell a dead node from a cut: give 3 or more with store.url cluster:" $replicas) -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (ne $kind "server") -}}
{{- fail (printf "autoscaling.enabled: the number of pods may follow the load only where counts are on a server, and store.url is %s: give the URL of one, or autoscaling.enabled false" (default "memory:" .Values.store.url)) -}}
{{- end -}}
{{- if gt (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas) -}}
{{- fail "autoscaling.minReplicas is more than autoscaling.maxReplicas" -}}
{{- end -}}
{{- if and .Values.tls.clientCAKey (not .Values.tls.existingSecret) -}}
{{- fail "tls.clientCAKey is a key in tls.existingSecret: give that, too" -}}
{{- end -}}
{{- with .Values.admission -}}
{{- if and .enabled (not .certManager.enabled) (not .caBundle) -}}
{{- fail "admission.caBundle: Kubernetes does not know the certificate of weir admission: give the PEM of its CA, or certManager.enabled true" -}}
{{- end -}}
{{- if and .certManager.enabled .caBundle -}}
{{- fail "admission.caBundle: cert-manager tells the CA: leave caBundle out, or give certManager.enabled false" -}}
{{- end -}}
{{- end -}}
{{- $least := add (include "weir.preStop" . | int) 17 | int -}}
{{- if lt (include "weir.grace" . | int) $least -}}
{{- fail (printf "terminationGracePeriodSeconds: a pod is killed before it has handed over: give %d or more, which is preStopSeconds and 17" $least) -}}
{{- end -}}
{{- end -}}
