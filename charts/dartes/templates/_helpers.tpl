{{/* Name of the release's objects: the release's, with the chart's name added where it is not in it. */}}
{{- define "dartes.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" (.Release.Name | trunc 43 | trimSuffix "-") .Chart.Name -}}
{{- end -}}
{{- end -}}

{{/* Name of cluster-scoped objects: two releases of one name in two namespaces must not meet. */}}
{{- define "dartes.clusterName" -}}
{{- printf "%s-%s" .Release.Namespace (include "dartes.fullname" .) -}}
{{- end -}}

{{- define "dartes.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (include "dartes.fullname" .) -}}
{{- end -}}

{{- define "dartes.selectorLabels" -}}
app.kubernetes.io/name: dartes
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end -}}

{{- define "dartes.commonLabels" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: dartes
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") }}
{{- end -}}

{{- define "dartes.labels" -}}
{{ include "dartes.selectorLabels" . }}
{{ include "dartes.commonLabels" . }}
{{- end -}}

{{/* An image reference. Takes a dict: root (the chart's context), image (repository, tag, digest). */}}
{{- define "dartes.image" -}}
{{- $registry := .root.Values.image.registry | trimSuffix "/" -}}
{{- $name := .image.repository -}}
{{- if $registry -}}
{{- $name = printf "%s/%s" $registry .image.repository -}}
{{- end -}}
{{- if .image.digest -}}
{{- printf "%s@%s" $name .image.digest -}}
{{- else -}}
{{- printf "%s:%s" $name (.image.tag | default .root.Values.image.tag | default .root.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* Environment variable DARTES_DEFAULTS: what a job gets where its spec says nothing, as JSON. */}}
{{- define "dartes.jobDefaults" -}}
{{- $defaults := .Values.jobDefaults -}}
{{- $images := dict -}}
{{- range $role := list "coordinator" "worker" "workerVllm" -}}
{{- $_ := set $images $role (include "dartes.image" (dict "root" $ "image" (get $defaults.images $role))) -}}
{{- end -}}
{{- $secrets := list -}}
{{- range $defaults.imagePullSecrets -}}
{{- $secrets = append $secrets .name -}}
{{- end -}}
{{- dict
    "images" $images
    "pullPolicy" ($defaults.pullPolicy | default .Values.image.pullPolicy)
    "pullSecrets" $secrets
    "tolerations" $defaults.tolerations
    "nodeSelector" $defaults.nodeSelector
  | toJson -}}
{{- end -}}

{{/* "true" where rights are given namespace by namespace. */}}
{{- define "dartes.namespacedRights" -}}
{{- if and (eq .Values.rbac.scope "Namespaced") (not .Values.watch.namespaces) -}}
{{- fail "rbac.scope is Namespaced and watch.namespaces is empty: list the namespaces, or take rbac.scope=Cluster" -}}
{{- end -}}
{{- if and .Values.watch.namespaces (ne .Values.rbac.scope "Cluster") -}}true{{- end -}}
{{- end -}}

{{/* What every container of the chart may do: nothing beyond its own process. */}}
{{- define "dartes.containerSecurityContext" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
readOnlyRootFilesystem: true
{{- end -}}

{{- define "dartes.podSecurityContext" -}}
{{- with .Values.securityContext }}
{{- toYaml . }}
{{- end }}
runAsNonRoot: true
seccompProfile:
  type: RuntimeDefault
{{- end -}}
