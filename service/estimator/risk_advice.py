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
        f"Only {productive_percent:.3g} % of the time is productive, and the rest is rework."
        + (f" The estimate hangs on rates that few know so well. {help_}" if help_ else ""),
    )


def no_on_demand_price() -> Note:
    """Break-evens without what they are against."""
    return Note(
        "break_even_needs_on_demand",
        "info",
        "Break-evens are against the price on demand: give alternatives.on_demand, of more than 0.",
    )


def spot_assumed(per_node_hour: float, wait_hours: float) -> Note:
    """A spot break-even of a run that is not on spot."""
    return Note(
        "spot_break_even_assumed",
        "warning",
        f"The spot break-even takes this run with {per_node_hour:g} interruptions per node-hour and {wait_hours:g} h "
        "of waiting for each, which are assumptions. For your own ask with purchase spot and rework.spot.",
    )


def spot_unknown(spot: str, on_demand: str, more_percent: float | None) -> Note:
    """A spot price without anything on failures; `more_percent` is None where spot is free."""
    pays = "any number of" if more_percent is None else f"{more_percent:.3g} % more"
    told = f"Spot at {spot} against {on_demand} on demand pays for {pays} GPU-hours: it is dearer once interruptions, "
    told += "restarts and waits take more."
    if more_percent is not None and more_percent <= 0:
        told = f"Spot at {spot} is not cheaper than {on_demand} on demand, and it is interrupted."
    return Note(
        "spot_break_even_unknown",
        "info",
        f"{told} For the break-even ask with rework of kind failures: what fails, and how long a restart takes.",
    )


def _listed(names: tuple[str, ...]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
