{{- /* The Redis user of a role: YAML with username, passwordSecret, urlSecret. (dict "root" $ "role" "worker") */ -}}
{{- define "goalmill.redisUser" -}}
{{- $redis := .root.Values.redis -}}
{{- $own := get $redis.roles .role | default dict -}}
{{- $url := dict "name" $redis.existingSecret "key" $redis.existingSecretKey -}}
{{- if (get $own "urlSecret" | default dict).name -}}{{- $url = $own.urlSecret -}}{{- end -}}
{{- $password := $redis.passwordSecret -}}
{{- if (get $own "passwordSecret" | default dict).name -}}{{- $password = $own.passwordSecret -}}{{- end -}}
{{- toYaml (dict "username" (default $redis.username (get $own "username")) "passwordSecret" $password "urlSecret" $url) -}}
{{- end -}}

{{- /* host:port of a single server, for KEDA. */ -}}
{{- define "goalmill.redisAddress" -}}
{{- $redis := .Values.redis -}}
{{- if .Values.devRedis.enabled -}}
{{ include "goalmill.fullname" . }}-redis.{{ .Release.Namespace }}.svc:6379
{{- else if $redis.host -}}
{{ $redis.host }}:{{ $redis.port }}
{{- else if $redis.url -}}
{{- $place := (urlParse $redis.url).host -}}
{{- if contains ":" $place -}}{{ $place }}{{- else -}}{{ $place }}:6379{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The address of Redis as environment variables: (dict "root" $ "role" "scheduler"). */ -}}
{{- define "goalmill.redisEnv" -}}
{{- $root := .root -}}
{{- $redis := $root.Values.redis -}}
{{- $user := include "goalmill.redisUser" . | fromYaml -}}
{{- if $root.Values.devRedis.enabled }}
- name: GOALMILL_REDIS_URL
  value: redis://{{ include "goalmill.redisAddress" $root }}
{{- else if $user.urlSecret.name }}
- name: GOALMILL_REDIS_URL
  valueFrom:
    secretKeyRef: {name: {{ $user.urlSecret.name | quote }}, key: {{ $user.urlSecret.key | quote }}}
{{- else if $redis.url }}
- name: GOALMILL_REDIS_URL
  value: {{ $redis.url | quote }}
{{- else }}
{{- if $user.passwordSecret.name }}
- name: REDIS_PASSWORD
  valueFrom:
    secretKeyRef: {name: {{ $user.passwordSecret.name | quote }}, key: {{ $user.passwordSecret.key | quote }}}
{{- end }}
{{- if and $redis.sentinel.enabled $redis.sentinel.passwordSecret.name }}
- name: SENTINEL_PASSWORD
  valueFrom:
    secretKeyRef: {name: {{ $redis.sentinel.passwordSecret.name | quote }}, key: {{ $redis.sentinel.passwordSecret.key | quote }}}
{{- end }}
- name: GOALMILL_REDIS_URL
  value: {{ include "goalmill.redisUrl" (dict "redis" $redis "user" $user) | quote }}
{{- end }}
{{- if $redis.tls.caSecret.name }}
- name: SSL_CERT_FILE
  value: /etc/ssl/certs/ca-certificates.crt
- name: SSL_CERT_DIR
  value: /etc/goalmill/redis-ca
{{- end }}
{{- end -}}

{{- define "goalmill.redisUrl" -}}
{{- $auth := "" -}}
{{- if .user.passwordSecret.name -}}
{{- $auth = printf "%s:$(REDIS_PASSWORD)@" .user.username -}}
{{- else if .user.username -}}
{{- $auth = printf "%s@" .user.username -}}
{{- end -}}
{{- $tls := ternary "rediss" "redis" .redis.tls.enabled -}}
{{- $insecure := ternary "#insecure" "" (and .redis.tls.enabled .redis.tls.insecure) -}}
{{- if .redis.sentinel.enabled -}}
{{- $query := "" -}}
{{- if .redis.sentinel.passwordSecret.name -}}
{{- $query = "?sentinel_password=$(SENTINEL_PASSWORD)" -}}
{{- with .redis.sentinel.username -}}{{- $query = printf "?sentinel_username=%s&sentinel_password=$(SENTINEL_PASSWORD)" . -}}{{- end -}}
{{- end -}}
{{ $tls }}+sentinel://{{ $auth }}{{ join "," .redis.sentinel.nodes }}/{{ .redis.sentinel.service }}/{{ .redis.database }}{{ $query }}{{ $insecure }}
{{- else -}}
{{ $tls }}://{{ $auth }}{{ .redis.host }}:{{ .redis.port }}/{{ .redis.database }}{{ $insecure }}
{{- end -}}
{{- end -}}

{{- define "goalmill.redisVolumes" -}}
{{- with .Values.redis.tls.caSecret.name }}
- name: redis-ca
  secret:
    secretName: {{ . | quote }}
    items: [{key: {{ $.Values.redis.tls.caSecret.key | quote }}, path: ca.pem}]
{{- end }}
{{- end -}}

{{- define "goalmill.redisMounts" -}}
{{- if .Values.redis.tls.caSecret.name }}
- {name: redis-ca, mountPath: /etc/goalmill/redis-ca, readOnly: true}
{{- end }}
{{- end -}}
