{{- define "portolan.labels" -}}
app.kubernetes.io/name: portolan
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "portolan.image" -}}
{{- if .Values.image.digest }}{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else }}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end -}}

{{- define "portolan.windowsImage" -}}
{{- $image := .Values.windows.image }}
{{- if $image.digest }}{{ $image.repository }}@{{ $image.digest }}
{{- else }}{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end -}}

{{- define "portolan.configMap" -}}
{{- if .Values.apiServer }}{{ .Release.Name }}-config
{{- else }}{{ required "set kubeProxyConfigMap or apiServer: without one of them the API server cannot be found" .Values.kubeProxyConfigMap }}
{{- end }}
{{- end -}}

{{- define "portolan.container" -}}
image: {{ include "portolan.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
env:
  - name: NODE_NAME
    valueFrom:
      fieldRef:
        fieldPath: spec.nodeName
{{- end -}}
