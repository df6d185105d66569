{{/* The pods of the Deployment or of the StatefulSet. */}}
{{- define "weir.pod" -}}
{{- $kind := include "weir.kind" . -}}
{{- $rules := include "weir.rulesConfigMap" . -}}
{{- $scheme := .Values.tls.existingSecret | empty | ternary "HTTP" "HTTPS" -}}
metadata:
  labels:
    {{- include "weir.pods" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  automountServiceAccountToken: false
  enableServiceLinks: false
  {{- with .Values.serviceAccount.name }}
  serviceAccountName: {{ . }}
  {{- end }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if .Values.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- toYaml .Values.topologySpreadConstraints | nindent 4 }}
  {{- else if ne $kind "memory" }}
  # One pod a machine, and a zone, where these have room.
  topologySpreadConstraints:
    {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
    - topologyKey: {{ . }}
      maxSkew: 1
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "weir.pods" $ | nindent 10 }}
    {{- end }}
  {{- end }}
  # Draining, handing over and reporting take 17 s at most, after preStop.
  terminationGracePeriodSeconds: {{ include "weir.grace" . }}
  securityContext:
    {{- toYaml .Values.podSecurityContext | nindent 4 }}
  containers:
    - name: weir
      image: {{ include "weir.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      env:
        {{- if eq $kind "cluster" }}
        - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        - {name: POD_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
        {{- end }}
        - {name: XDG_CACHE_HOME, value: /var/cache/weir} # members and rules that the pod remembers
        {{- if .Values.store.existingSecret }}
        - {name: WEIR_STORE, valueFrom: {secretKeyRef: {name: {{ .Values.store.existingSecret }}, key: {{ .Values.store.existingSecretKey }}}}}
        {{- end }}
        {{- if .Values.data.existingSecret }}
        - {name: WEIR_DATA, valueFrom: {secretKeyRef: {name: {{ .Values.data.existingSecret }}, key: {{ .Values.data.existingSecretKey }}}}}
        {{- end }}
        {{- with .Values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      args:
        - serve
        {{- if $rules }}
        - --rules=/etc/weir/rules
        {{- end }}
        {{- with .Values.store.url }}
        - {{ printf "--store=%s" . | quote }}
        {{- end }}
        {{- if eq $kind "cluster" }}
        {{- $domain := printf "%s-nodes.$(POD_NAMESPACE).svc.%s:8083" (include "weir.fullname" .) .Values.cluster.domain }}
        - --cluster=$(POD_NAME).{{ $domain }}
        - --join={{ $domain }}
        - --cluster-name={{ .Values.cluster.name | default (include "weir.fullname" .) }}
        - --cluster-key-file=/etc/weir/cluster/{{ .Values.cluster.existingSecretKey }}
        {{- end }}
        - --http=0.0.0.0:8080
        - --grpc=0.0.0.0:8081
        {{- with .Values.grpc.maxConnectionAge }}
        - --grpc-max-connection-age={{ . }}
        {{- end }}
        - --admin=0.0.0.0:8082
        - --admin-token-file=/etc/weir/admin/{{ .Values.admin.existingSecretKey }}
        {{- if .Values.resp.enabled }}
        - --resp=0.0.0.0:6379
        - --resp-password-file=/etc/weir/resp/{{ .Values.resp.existingSecretKey }}
        {{- end }}
        {{- if .Values.tls.existingSecret }}
        - --tls-cert=/etc/weir/tls/tls.crt
        - --tls-key=/etc/weir/tls/tls.key
        {{- with .Values.tls.clientCAKey }}
        - --tls-client-ca=/etc/weir/tls/{{ . }}
        {{- end }}
        {{- end }}
        {{- range .Values.extraArgs }}
        - {{ . | quote }}
        {{- end }}
      ports:
        - {name: http, containerPort: 8080}
        - {name: grpc, containerPort: 8081}
        - {name: admin, containerPort: 8082}
        {{- if .Values.resp.enabled }}
        - {name: resp, containerPort: 6379}
        {{- end }}
        {{- if eq $kind "cluster" }}
        - {name: cluster-tcp, containerPort: 8083, protocol: TCP}
        - {name: cluster-udp, containerPort: 8083, protocol: UDP}
        {{- end }}
      # Ready when it has rules, and until it drains; it lives while it answers.
      readinessProbe:
        httpGet: {path: /readyz, port: http, scheme: {{ $scheme }}}
        periodSeconds: 2
        failureThreshold: 1
      livenessProbe:
        httpGet: {path: /healthz, port: http, scheme: {{ $scheme }}}
        failureThreshold: 6
      {{- with include "weir.preStop" . | int }}
      # It goes on as before until all who ask have learnt that it ends.
      lifecycle:
        preStop: {sleep: {seconds: {{ . }}}}
      {{- end }}
      {{- with .Values.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        {{- toYaml .Values.securityContext | nindent 8 }}
      volumeMounts:
        {{- if $rules }}
        - {name: rules, mountPath: /etc/weir/rules, readOnly: true}
        {{- end }}
        {{- if eq $kind "cluster" }}
        - {name: cluster, mountPath: /etc/weir/cluster, readOnly: true}
        {{- end }}
        - {name: admin, mountPath: /etc/weir/admin, readOnly: true}
        {{- if .Values.resp.enabled }}
        - {name: resp, mountPath: /etc/weir/resp, readOnly: true}
        {{- end }}
        {{- if .Values.tls.existingSecret }}
        - {name: tls, mountPath: /etc/weir/tls, readOnly: true}
        {{- end }}
        - {name: cache, mountPath: /var/cache/weir}
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    {{- if $rules }}
    - name: rules
      configMap: {name: {{ $rules }}}
    {{- end }}
    {{- if eq $kind "cluster" }}
    - name: cluster
      secret: {secretName: {{ include "weir.clusterSecret" . }}, defaultMode: 0440}
    {{- end }}
    - name: admin
      secret: {secretName: {{ include "weir.adminSecret" . }}, defaultMode: 0440}
    {{- if .Values.resp.enabled }}
    - name: resp
      secret: {secretName: {{ include "weir.respSecret" . }}, defaultMode: 0440}
    {{- end }}
    {{- with .Values.tls.existingSecret }}
    - name: tls
      secret: {secretName: {{ . }}, defaultMode: 0440}
    {{- end }}
    - name: cache
      emptyDir: {sizeLimit: 16Mi}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}
