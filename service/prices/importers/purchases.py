"""The many words for how a GPU is bought, each to one of ours; a word that says more is kept beside it."""

import re

from service.prices.importers.rows import Reject, shown
from service.prices.schemas import Purchase

# Who owns the machine is what `secure` and `community` tell apart: a provider's data centre, or anybody's computer.
_WORDS: dict[str, Purchase] = {
    "ondemand": "on_demand",
    "payasyougo": "on_demand",
    "payg": "on_demand",
    "secure": "on_demand",
    "serverless": "on_demand",
    "spot": "spot",
    "preemptible": "spot",
    "interruptible": "spot",
    "lowpriority": "spot",
    "reserved": "reserved",
    "reservation": "reserved",
    "committed": "reserved",
    "marketplace": "marketplace",
    "community": "marketplace",
    "capacityblock": "capacity_block",
    "capacityblocks": "capacity_block",
}
_OURS = {purchase.replace("_", ""): purchase for purchase in _WORDS.values()}
_SEPARATORS = re.compile(r"[\s_-]+")


def purchase_of(word: str) -> tuple[Purchase, str | None]:
    """Our way to buy, and the word itself where it says more than ours; Reject names a word that nobody mapped."""
    plain = _SEPARATORS.sub("", word).casefold()
    purchase = _WORDS.get(plain)
    if purchase is None:
        raise Reject(
            "unknown_word",
            "purchase",
            f"{shown(word)} is no way to buy that is known; map it to one of {', '.join(sorted(set(_WORDS.values())))}",
        )
    return purchase, None if plain in _OURS else word
