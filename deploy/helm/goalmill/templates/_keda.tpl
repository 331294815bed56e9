{{- /* (dict "root" $ "name" name "of" pool "types" list "slots" number) */ -}}
{{- define "goalmill.scaledObject" -}}
{{- $root := .root -}}
{{- $auto := .of.autoscaling -}}
{{- $keda := $auto.keda -}}
{{- $slots := .slots -}}
{{- $formula := list -}}
{{- range $at, $_ := .types -}}
{{- if eq $keda.trigger "redis-streams" -}}
{{- $formula = append $formula (printf "(lag%d < 0 ? 1 : lag%d) + inflight%d" $at $at $at) -}}
{{- else -}}
{{- $formula = append $formula (printf "load%d" $at) -}}
{{- end -}}
{{- end -}}
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata:
  name: {{ .name | quote }}
  labels:
{{ include "goalmill.labels" $root | indent 4 }}
{{- with $keda.annotations }}
  annotations:
{{ toYaml . | indent 4 }}
{{- end }}
spec:
  scaleTargetRef: {name: {{ .name | quote }}, envSourceContainerName: worker}
  pollingInterval: {{ $keda.pollingInterval }}
  cooldownPeriod: {{ $keda.cooldownPeriod }}
  minReplicaCount: {{ $auto.minReplicas }}
  maxReplicaCount: {{ $auto.maxReplicas }}
  fallback: {failureThreshold: 3, replicas: {{ $keda.fallbackReplicas }}, behavior: currentReplicasIfHigher}
  advanced:
    scalingModifiers:
      formula: {{ join " + " $formula | quote }}
      target: {{ $slots | quote }}
      activationTarget: "0"
      metricType: AverageValue
    horizontalPodAutoscalerConfig:
      behavior:
        scaleUp:
{{ toYaml $auto.scaleUp | indent 10 }}
        scaleDown:
{{ toYaml $auto.scaleDown | indent 10 }}
  triggers:
{{- range $at, $type := .types }}
{{- if eq $keda.trigger "metrics-api" }}
    - type: metrics-api
      name: load{{ $at }}
      metadata:
        url: {{ include "goalmill.schedulerUrl" $root }}/v1/scaling/{{ $type }}
        valueLocation: desired_slots
        targetValue: {{ $slots | quote }}
{{- if not (include "goalmill.apiIsOpen" $root) }}
        authMode: bearer
      authenticationRef: {name: {{ printf "%s-api" (include "goalmill.fullname" $root) | quote }}}
{{- end }}
{{- else if eq $keda.trigger "prometheus" }}
    - type: prometheus
      name: load{{ $at }}
      metadata:
        serverAddress: {{ required (printf "set autoscaling.keda.prometheus.serverAddress of %s" $.name) $keda.prometheus.serverAddress | quote }}
        query: max(goalmill_scaling_desired_slots{namespace={{ $root.Release.Namespace | quote }},agent_type={{ $type | quote }}})
        threshold: {{ $slots | quote }}
        ignoreNullValues: "false"
{{- with $keda.prometheus.authenticationRef }}
      authenticationRef: {name: {{ . | quote }}}
{{- end }}
{{- else }}
    - type: {{ ternary "redis-sentinel-streams" "redis-streams" $root.Values.redis.sentinel.enabled }}
      name: lag{{ $at }}
      metadata:
{{ include "goalmill.kedaRedis" $root | indent 8 }}
        stream: goalmill:steps:{{ $type }}
        consumerGroup: workers
        lagCount: {{ $slots | quote }}
        activationLagCount: "0"
{{ include "goalmill.kedaAuthRef" $root | indent 6 }}
    - type: {{ ternary "redis-sentinel-streams" "redis-streams" $root.Values.redis.sentinel.enabled }}
      name: inflight{{ $at }}
      metadata:
{{ include "goalmill.kedaRedis" $root | indent 8 }}
        stream: goalmill:steps:{{ $type }}
        consumerGroup: workers
        pendingEntriesCount: {{ $slots | quote }}
{{ include "goalmill.kedaAuthRef" $root | indent 6 }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "goalmill.kedaRedis" -}}
{{- $redis := .Values.redis -}}
{{- if $redis.sentinel.enabled -}}
{{- $nodes := list -}}
{{- range $redis.sentinel.nodes -}}{{- $nodes = append $nodes (ternary . (printf "%s:26379" .) (contains ":" .)) -}}{{- end -}}
addresses: {{ join "," $nodes }}
sentinelMaster: {{ $redis.sentinel.service | quote }}
{{- else -}}
address: {{ required "KEDA's trigger redis-streams needs redis.host or redis.url: it cannot read an address inside a Secret" (include "goalmill.redisAddress" .) }}
{{- end }}
databaseIndex: {{ $redis.database | quote }}
{{- end -}}

{{- define "goalmill.kedaHasAuth" -}}
{{- $user := include "goalmill.redisUser" (dict "root" . "role" "autoscaler") | fromYaml -}}
{{- if and (not .Values.devRedis.enabled) (or $user.passwordSecret.name .Values.redis.tls.enabled) -}}yes{{- end -}}
{{- end -}}

{{- define "goalmill.kedaAuthRef" -}}
{{- if include "goalmill.kedaHasAuth" . -}}
authenticationRef: {name: {{ printf "%s-redis" (include "goalmill.fullname" .) | quote }}}
{{- end -}}
{{- end -}}
