"""What a Python caller writes: typed requests, answers and problems. Arguments: a live server's address, a key."""

import sys
from http import HTTPStatus

from traincost_client import AuthenticatedClient  # type: ignore[import-not-found]
from traincost_client.api.estimates import create_estimate  # type: ignore[import-not-found]
from traincost_client.api.scenarios import (  # type: ignore[import-not-found]
    delete_scenario,
    get_scenario,
    put_scenario,
)
from traincost_client.models import (  # type: ignore[import-not-found]
    Budget,
    Cluster,
    CostVerdict,
    Estimate,
    EstimateRequest,
    InterconnectScaling,
    InterconnectScalingKind,
    Problem,
    Scenario,
    ScenarioWrite,
    Verdict,
)

NAME = "from-python"


def client_of(base: str, key: str) -> AuthenticatedClient:
    """Whoever has this key."""
    return AuthenticatedClient(
        base_url=base, token=key, raise_on_unexpected_status=True, httpx_args={"trust_env": False}
    )


def main(base: str, key: str) -> None:
    """Estimate, save, read, be refused, delete."""
    with client_of(base, "no key") as stranger:
        refused = create_estimate.sync(client=stranger, body=EstimateRequest())
        assert isinstance(refused, Problem), refused
        assert refused.status == HTTPStatus.UNAUTHORIZED
    with client_of(base, key) as client:
        estimate = create_estimate.sync(client=client, body=EstimateRequest())
        assert isinstance(estimate, Estimate), estimate
        total: str = estimate.cost.total
        assert total == "27950.00", total

        body = ScenarioWrite(
            description="Saved by a generated client",
            request=EstimateRequest(
                cluster=Cluster(gpu="h100-sxm-80gb", gpu_count=512),
                scaling=InterconnectScaling(kind=InterconnectScalingKind.INTERCONNECT, preset="ib-ndr-400"),
                budget=Budget(amount="1500000"),
            ),
        )
        created = put_scenario.sync_detailed(NAME, client=client, body=body)
        assert created.status_code == HTTPStatus.CREATED, created
        etag: str = created.headers["ETag"]

        scenario = get_scenario.sync(NAME, client=client)
        assert isinstance(scenario, Scenario), scenario
        assert scenario.description == body.description
        verdict = scenario.estimate.verdict
        assert isinstance(verdict, Verdict), verdict
        assert isinstance(verdict.cost, CostVerdict), verdict
        assert verdict.cost.status == "ok", verdict

        problem = create_estimate.sync(client=client, body=EstimateRequest(cluster=Cluster(gpu_count=0)))
        assert isinstance(problem, Problem), problem
        assert problem.status == HTTPStatus.UNPROCESSABLE_ENTITY
        assert [fault.pointer for fault in problem.errors] == ["/cluster/gpu_count"]

        blind = delete_scenario.sync_detailed(NAME, client=client)
        assert blind.status_code == HTTPStatus.PRECONDITION_REQUIRED, blind
        assert isinstance(blind.parsed, Problem)
        removed = delete_scenario.sync_detailed(NAME, client=client, if_match=etag)
        assert removed.status_code == HTTPStatus.NO_CONTENT, removed
    print(f"an estimate of {total} USD, a scenario saved, read and deleted, problems typed")


if __name__ == "__main__":
    main(*sys.argv[1:3])
