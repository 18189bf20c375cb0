"""The Service, the network policies and the disruption budget: made at the start, and kept as the spec says.

Policies and budget are not watched, so they are written again whenever the spec's generation moves on, or
what they should say does: an operator that came back in another namespace would else be kept out.
"""

import json

from dartes.spec.job import JobSpec
from dartes.spec.policies import DisruptionBudget, NetworkPolicyMode
from dartes_operator.plan.conditions import Condition
from dartes_operator.plan.situation import Draft, Situation
from dartes_operator.plan.types import Apply, Create, Delete, Kind
from dartes_operator.resources.disruption_budget import disruption_budget
from dartes_operator.resources.identity import JOB_UID_LABEL
from dartes_operator.resources.network_policy import network_policies
from dartes_operator.resources.run_config import hash_of
from dartes_operator.resources.service import service


def service_ready(situation: Situation, draft: Draft) -> bool:
    """Make the Service; false, with the reason in ResourcesReady, where its name is somebody else's."""
    found = situation.observed.service
    if found is None:
        draft.actions.append(Create(service(situation.identity)))
        return True
    labels = found["metadata"].get("labels") or {}
    if labels.get(JOB_UID_LABEL) == situation.identity.uid:
        return True
    draft.conditions.set(
        Condition.RESOURCES_READY,
        False,
        "NameConflict",
        f"the Service {situation.identity.coordinator} is not this job's; delete it, or give the job another "
        "name",
    )
    return False


def keep_policies(situation: Situation, draft: Draft, spec: JobSpec, *, resuming: bool) -> None:
    """Write policies and budget: with the first pods, after a suspension, after each change."""
    wanted = [
        *network_policies(situation.identity, spec.network_policy.mode, situation.defaults.operator_namespace)
    ]
    if spec.disruption_budget is DisruptionBudget.BLOCK_VOLUNTARY:
        wanted.append(disruption_budget(situation.identity))
    draft.policies = hash_of({"policies": json.dumps(wanted, sort_keys=True)})
    before = situation.before
    written = (before.get("observedGeneration"), before.get("policyHash"))
    as_written = written == (situation.generation, draft.policies)
    starting = situation.start_time is None
    if as_written and not resuming and not starting:
        return
    # Also at the start: a pass whose status was lost may have made them as an older spec asked.
    draft.actions.extend(Apply(manifest) for manifest in wanted)
    if starting and (as_written or not _was_begun(situation)):
        return
    identity = situation.identity
    if spec.network_policy.mode is NetworkPolicyMode.NONE:
        for name in (identity.coordinator, identity.worker_policy):
            draft.actions.append(Delete(Kind.NETWORK_POLICY, name, None))
    if spec.disruption_budget is DisruptionBudget.NONE:
        draft.actions.append(Delete(Kind.DISRUPTION_BUDGET, identity.coordinator, None))


def _was_begun(situation: Situation) -> bool:
    """Whether an earlier pass has made something: the Service and the run come before the policies."""
    observed = situation.observed
    return bool(observed.service or observed.config_maps or observed.pods)
