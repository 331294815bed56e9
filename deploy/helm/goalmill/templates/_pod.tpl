{{- /* The pod of a scheduler or of a pool.
       (dict "root" $ "of" values "role" "scheduler" "selector" text "labels" text "config" text "configName" name
             "args" list "ports" list "probe" port "grace" seconds) */ -}}
{{- define "goalmill.pod" -}}
{{- $root := .root -}}
{{- $tls := ternary $root.Values.api.tlsSecret.name "" (eq .role "scheduler") -}}
metadata:
  labels:
{{ .labels | indent 4 }}
{{- with .of.podLabels }}
{{ toYaml . | indent 4 }}
{{- end }}
  annotations:
    kubectl.kubernetes.io/default-container: {{ .role }}
    checksum/config: {{ .config | sha256sum | quote }}
{{- with .of.podAnnotations }}
{{ toYaml . | indent 4 }}
{{- end }}
spec:
  serviceAccountName: {{ .of.serviceAccountName | default (include "goalmill.serviceAccount" $root) | quote }}
  automountServiceAccountToken: {{ .of.automountServiceAccountToken }}
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .grace }}
{{- with $root.Values.imagePullSecrets }}
  imagePullSecrets:
{{ toYaml . | indent 4 }}
{{- end }}
  securityContext:
{{ toYaml (mergeOverwrite (deepCopy $root.Values.podSecurityContext) (deepCopy .of.podSecurityContext)) | indent 4 }}
{{- with .of.initContainers }}
  initContainers:
{{ toYaml . | indent 4 }}
{{- end }}
  containers:
    - name: {{ .role }}
      image: {{ include "goalmill.image" (dict "root" $root "image" .of.image) | quote }}
      imagePullPolicy: {{ include "goalmill.pullPolicy" (dict "root" $root "image" .of.image) }}
{{- if .of.command }}
      command:
{{ toYaml .of.command | indent 8 }}
{{- with .of.extraArgs }}
      args:
{{ toYaml . | indent 8 }}
{{- end }}
{{- else }}
      args:
{{ toYaml (concat .args .of.extraArgs) | indent 8 }}
{{- end }}
{{- with .of.lifecycle }}
      lifecycle:
{{ toYaml . | indent 8 }}
{{- end }}
      env:
        - name: GOALMILL_CONFIG
          value: /etc/goalmill/config/goalmill.yaml
{{ include "goalmill.redisEnv" (dict "root" $root "role" .role) | trim | indent 8 }}
        - name: GOALMILL_SERVER
          value: {{ include "goalmill.schedulerUrl" $root }}
{{- if eq .role "scheduler" }}
{{- with include "goalmill.apiEnv" $root }}
{{ . | trim | indent 8 }}
{{- end }}
{{- with include "goalmill.archiveEnv" $root }}
{{ . | trim | indent 8 }}
{{- end }}
{{- end }}
{{- with .of.extraEnv }}
{{ toYaml . | indent 8 }}
{{- end }}
{{- if or .of.existingSecrets .of.extraEnvFrom }}
      envFrom:
{{- range .of.existingSecrets }}
        - secretRef: {name: {{ . | quote }}}
{{- end }}
{{- with .of.extraEnvFrom }}
{{ toYaml . | indent 8 }}
{{- end }}
{{- end }}
      ports:
{{ toYaml .ports | indent 8 }}
{{ include "goalmill.probes" (dict "of" .of "port" .probe "scheme" (ternary ", scheme: HTTPS" "" (not (empty $tls)))) | indent 6 }}
      resources:
{{ toYaml .of.resources | indent 8 }}
      securityContext:
{{ toYaml (mergeOverwrite (deepCopy $root.Values.securityContext) (deepCopy .of.securityContext)) | indent 8 }}
      volumeMounts:
        - {name: config, mountPath: /etc/goalmill/config, readOnly: true}
        - {name: tmp, mountPath: /tmp}
{{- with include "goalmill.redisMounts" $root }}
{{ . | trim | indent 8 }}
{{- end }}
{{- if $tls }}
{{ include "goalmill.apiTlsMount" $root | indent 8 }}
{{- end }}
{{- with .of.extraVolumeMounts }}
{{ toYaml . | indent 8 }}
{{- end }}
{{- with .of.extraContainers }}
{{ toYaml . | indent 4 }}
{{- end }}
  volumes:
    - name: config
      configMap: {name: {{ .configName | quote }}}
    - name: tmp
      emptyDir: {sizeLimit: 256Mi}
{{- with include "goalmill.redisVolumes" $root }}
{{ . | trim | indent 4 }}
{{- end }}
{{- if $tls }}
{{ include "goalmill.apiTlsVolume" (dict "root" $root "withKey" true) | indent 4 }}
{{- end }}
{{- with .of.extraVolumes }}
{{ toYaml . | indent 4 }}
{{- end }}
{{ include "goalmill.placement" (dict "root" $root "of" .of "selector" .selector) | trim | indent 2 }}
{{- end -}}
