"""What a reader should know of a simulation and of a run that hardly progresses, as notes with stable codes."""

from service.estimator.results import Note


def no_spread() -> Note:
    """A simulation in which nothing varies."""
    return Note(
        "uncertainty_none",
        "warning",
        "Nothing that was drawn has a spread, so that all quantiles are the same. What a request gives is taken as "
        "certain: state spreads for what is not.",
    )


def certain_defaults(fields: tuple[str, ...]) -> Note:
    """Defaults that nobody published a spread of."""
    return Note(
        "uncertainty_defaults_certain",
        "info",
        f"Of {_listed(fields)} nobody gave a figure, and no spread of the default is known: taken as certain, so that "
        "the real spread is wider than the one shown.",
    )


def unused_spreads(names: tuple[str, ...], had: tuple[str, ...]) -> Note:
    """Spreads of inputs that the run does not have."""
    return Note(
        "spread_unused",
        "warning",
        f"A spread was given for {_listed(names)}, which changes nothing in this run and was not drawn. This run has "
        f"{_listed(had)}.",
    )


def unsaid_means(names: tuple[str, ...], cause: str) -> Note:
    """A mean that a few draws make up."""
    return Note(
        "risk_mean_unsaid",
        "warning",
        f"{_listed(names)} cannot be said: a few draws are so far beyond the others, by {cause} most of all, that "
        "another seed would give another mean, or one that no amount holds. Go by the quantiles.",
    )


def hardly_progresses(productive_percent: float, help_: str) -> Note:
    """A run that is stopped, restarted or waiting for more than half of its time."""
    return Note(
        "run_hardly_progresses",
        "warning",
        f"Only {productive_percent:.3g} % of the time is productive; the rest is rework, and the estimate hangs on "
        f"rates that few know so well. {help_}",
    )


def _listed(names: tuple[str, ...]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
