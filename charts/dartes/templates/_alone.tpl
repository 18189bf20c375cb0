{{/*
A release that looks after all namespaces stands alone: it would undo what another one does in its own, and the
other way round. It is looked for company only where it makes its own ClusterRole: who may create that may see the
whole cluster, while to anybody else the look itself would be an error. `helm template` sees no cluster, and so no
company.
*/}}
{{- define "dartes.refuseCompany" -}}
{{- if and .Values.rbac.create (not .Values.watch.namespaces) -}}
{{- range (lookup "apps/v1" "Deployment" "" "").items -}}
{{- $labels := .metadata.labels | default dict -}}
{{- $ours := and (eq (get $labels "app.kubernetes.io/name") "dartes") (eq (get $labels "app.kubernetes.io/component") "operator") -}}
{{- $self := and (eq .metadata.namespace $.Release.Namespace) (eq (get $labels "app.kubernetes.io/instance") $.Release.Name) -}}
{{- if and $ours (not $self) (gt (int .spec.replicas) 0) -}}
{{- fail (printf "this release would look after all namespaces, and there is another operator already (Deployment %s in namespace %s): two on one job undo each other's work. Uninstall that one first, or list this release's namespaces in watch.namespaces" .metadata.name .metadata.namespace) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
