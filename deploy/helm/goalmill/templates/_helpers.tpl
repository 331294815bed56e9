{{- define "goalmill.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- /* The name of a Service begins with a letter: release `123` has the name `goalmill-123`. */ -}}
{{- define "goalmill.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if regexMatch "^[0-9]" .Release.Name -}}
{{- printf "%s-%s" (include "goalmill.name" .) .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "goalmill.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "goalmill.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "goalmill.selector" -}}
app.kubernetes.io/name: {{ include "goalmill.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "goalmill.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "goalmill.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "goalmill.annotations" -}}
{{- with .Values.commonAnnotations }}
annotations:
{{ toYaml . | indent 2 }}
{{- end }}
{{- end -}}

{{- define "goalmill.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "goalmill.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- /* The image of a part: (dict "root" $ "image" overrides). */ -}}
{{- define "goalmill.image" -}}
{{- $image := mergeOverwrite (deepCopy .root.Values.image) (.image | default dict) -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ default .root.Chart.AppVersion $image.tag }}
{{- end -}}
{{- end -}}

{{- define "goalmill.pullPolicy" -}}
{{- $image := mergeOverwrite (deepCopy .root.Values.image) (.image | default dict) -}}
{{ $image.pullPolicy }}
{{- end -}}

{{- /* The pools that are on, with their defaults, as YAML. */ -}}
{{- define "goalmill.pools" -}}
{{- $root := . -}}
{{- $pools := dict -}}
{{- range $name, $own := .Values.workers -}}
{{- $pool := mergeOverwrite (deepCopy $root.Values.workerDefaults) (deepCopy ($own | default dict)) -}}
{{- if $pool.enabled -}}
{{- $_ := set $pools $name $pool -}}
{{- end -}}
{{- end -}}
{{ toYaml $pools }}
{{- end -}}

{{- define "goalmill.apiScheme" -}}
{{- ternary "https" "http" (ne .Values.api.tlsSecret.name "") -}}
{{- end -}}

{{- define "goalmill.schedulerUrl" -}}
{{ include "goalmill.apiScheme" . }}://{{ include "goalmill.fullname" . }}-scheduler.{{ .Release.Namespace }}.svc:{{ .Values.scheduler.service.port }}
{{- end -}}

{{- /* Settings of the scheduler, as YAML. Own host names are allowed where names are limited, and agents report by
       callback to the Service unless another address is set. */ -}}
{{- define "goalmill.schedulerConfig" -}}
{{- $config := mergeOverwrite (deepCopy .Values.config) (deepCopy .Values.scheduler.config) -}}
{{- $api := get $config "api" | default dict -}}
{{- if not (get $api "callback_url") -}}{{- $_ := set $api "callback_url" (include "goalmill.schedulerUrl" .) -}}{{- end -}}
{{- if get $api "hosts" -}}
{{- $own := printf "%s-scheduler" (include "goalmill.fullname" .) -}}
{{- $names := list $own (printf "%s.%s" $own .Release.Namespace) (printf "%s.%s.svc" $own .Release.Namespace) (printf "%s.%s.svc.cluster.local" $own .Release.Namespace) -}}
{{- $_ := set $api "hosts" (concat (get $api "hosts") $names | uniq) -}}
{{- end -}}
{{- $_ := set $config "api" $api -}}
{{ toYaml $config }}
{{- end -}}

{{- /* Settings of a pool: (dict "root" $ "pool" $pool). */ -}}
{{- define "goalmill.poolConfig" -}}
{{- $config := mergeOverwrite (deepCopy .root.Values.config) (deepCopy .pool.config) -}}
{{- $worker := get $config "worker" | default dict -}}
{{- $_ := set $worker "drain_ms" (int64 .pool.drainMs) -}}
{{- $_ := set $worker "slots" (int64 .pool.slots) -}}
{{- $_ := set $config "worker" $worker -}}
{{ toYaml $config }}
{{- end -}}

{{- /* (dict "of" values "port" name "scheme" ", scheme: HTTPS" or "") */ -}}
{{- define "goalmill.probes" -}}
startupProbe:
  httpGet: {path: /livez, port: {{ .port }}{{ .scheme }}}
{{ toYaml .of.startupProbe | indent 2 }}
livenessProbe:
  httpGet: {path: /livez, port: {{ .port }}{{ .scheme }}}
{{ toYaml .of.livenessProbe | indent 2 }}
readinessProbe:
  httpGet: {path: /readyz, port: {{ .port }}{{ .scheme }}}
{{ toYaml .of.readinessProbe | indent 2 }}
{{- end -}}

{{- /* (dict "root" $ "of" values "selector" labels) */ -}}
{{- define "goalmill.placement" -}}
{{- with .of.nodeSelector }}
nodeSelector:
{{ toYaml . | indent 2 }}
{{- end }}
{{- with .of.tolerations }}
tolerations:
{{ toYaml . | indent 2 }}
{{- end }}
{{- with .of.affinity }}
affinity:
{{ toYaml . | indent 2 }}
{{- end }}
{{- with .of.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
topologySpreadConstraints:
{{- if .of.topologySpreadConstraints }}
{{ toYaml .of.topologySpreadConstraints | indent 2 }}
{{- else }}
{{- $selector := .selector }}
{{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
{{ $selector | indent 8 }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* "yes" if everybody may call the API. */ -}}
{{- define "goalmill.apiIsOpen" -}}
{{- if or (eq .Values.api.authentication "none") (and .Values.devRedis.enabled (not .Values.api.tokensSecret.name)) -}}yes{{- end -}}
{{- end -}}

{{- /* Certificate and key of the API: (dict "root" $ "withKey" whether a scheduler has it). */ -}}
{{- define "goalmill.apiTlsVolume" -}}
{{- $secret := .root.Values.api.tlsSecret -}}
- name: api-tls
  secret:
    secretName: {{ $secret.name | quote }}
    defaultMode: 288
    items:
{{- if .withKey }}
      - {key: {{ $secret.certKey | quote }}, path: tls.crt}
      - {key: {{ $secret.keyKey | quote }}, path: tls.key}
{{- end }}
{{- with $secret.caKey }}
      - {key: {{ . | quote }}, path: ca.crt}
{{- end }}
{{- end -}}

{{- define "goalmill.apiTlsMount" -}}
- {name: api-tls, mountPath: /etc/goalmill/api-tls, readOnly: true}
{{- end -}}

{{- /* The authority that client commands in a pod trust. */ -}}
{{- define "goalmill.apiCaEnv" -}}
{{- if and .Values.api.tlsSecret.name .Values.api.tlsSecret.caKey -}}
- {name: GOALMILL_CA_FILE, value: /etc/goalmill/api-tls/ca.crt}
{{- end -}}
{{- end -}}

{{- /* Variables of the archive of finished plans. */ -}}
{{- define "goalmill.archiveEnv" -}}
{{- with .Values.archive.urlSecret -}}
{{- if .name -}}
- {name: GOALMILL__ARCHIVE__STORE, value: postgres}
- {name: GOALMILL__ARCHIVE__URL_ENV, value: GOALMILL_ARCHIVE_URL}
- name: GOALMILL_ARCHIVE_URL
  valueFrom: {secretKeyRef: {name: {{ .name | quote }}, key: {{ .key | quote }}}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Variables that make the API serve HTTPS and ask for tokens. */ -}}
{{- define "goalmill.apiEnv" -}}
{{- if .Values.api.tlsSecret.name }}
- {name: GOALMILL__API__TLS__CERT_FILE, value: /etc/goalmill/api-tls/tls.crt}
- {name: GOALMILL__API__TLS__KEY_FILE, value: /etc/goalmill/api-tls/tls.key}
{{ include "goalmill.apiCaEnv" . }}
{{ end -}}
{{- if not (include "goalmill.apiIsOpen" .) -}}
{{- $secret := .Values.api.tokensSecret -}}
- {name: GOALMILL__API__AUTHENTICATION, value: required}
- {name: GOALMILL__API__ADMIN_TOKEN_ENV, value: GOALMILL_ADMIN_TOKEN}
- {name: GOALMILL__API__SCALING_TOKEN_ENV, value: GOALMILL_SCALING_TOKEN}
- name: GOALMILL_ADMIN_TOKEN
  valueFrom: {secretKeyRef: {name: {{ $secret.name | quote }}, key: {{ $secret.adminKey | quote }}}}
- name: GOALMILL_SCALING_TOKEN
  valueFrom: {secretKeyRef: {name: {{ $secret.name | quote }}, key: {{ $secret.scalingKey | quote }}}}
{{- end -}}
{{- end -}}
