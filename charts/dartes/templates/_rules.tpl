{{/*
All that the operator may do, in one namespace or in all. Reading the cluster's nodes, definitions, namespaces
or other people's Secrets is not in it: a Secret is read by its name only. Nothing is in it that is not used:
tests/cluster/test_operator_rights.py takes each verb away and sees what is missed.
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
  resources: [pods, configmaps]
  verbs: [create, get, list, watch, delete]
- apiGroups: [""]
  resources: [services]
  verbs: [create, get, list, watch]
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  # delete: none is ever deleted, but the API servers above ask for it before its owner may change.
  verbs: [create, get, list, watch, patch, delete]
- apiGroups: [""]
  resources: [secrets]
  verbs: [create, get, patch]
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
