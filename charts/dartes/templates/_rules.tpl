{{/*
All that the operator may do, in one namespace or in all. Reading the cluster's nodes, definitions, namespaces
or other people's Secrets is not in it: a Secret is read by its name only.
*/}}
{{- define "dartes.rules" -}}
- apiGroups: [dartes.dev]
  resources: [dartesjobs]
  # delete: jobs whose ttlSecondsAfterFinished has passed.
  verbs: [get, list, watch, delete]
- apiGroups: [dartes.dev]
  resources: [dartesjobs/status]
  verbs: [patch]
- apiGroups: [dartes.dev]
  resources: [dartesjobs/finalizers]
  # Some API servers ask for it before an object may name a job as the owner that waits for it.
  verbs: [update]
- apiGroups: [""]
  resources: [pods, services, configmaps, persistentvolumeclaims]
  verbs: [create, get, list, watch, patch, delete]
- apiGroups: [""]
  resources: [secrets]
  verbs: [create, get, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [create, get, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [create, get, patch, delete]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end -}}
