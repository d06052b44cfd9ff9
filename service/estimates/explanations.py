"""Every formula that an answer used."""

from service.estimator.answers import Explanation
from service.estimator.detailed import DetailedRun
from service.estimator.results import Estimate
from service.estimator.timing import Hours


def explained(run: DetailedRun, hours: Hours, answer: Estimate) -> tuple[Explanation, ...]:
    return ()
