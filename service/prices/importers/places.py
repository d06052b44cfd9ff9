"""Which country a region's text names: the middle of "City, CC, continent" or the end of "City, CC", never a guess."""

import re
from functools import lru_cache

# ISO 3166-1 alpha-2, the officially assigned codes.
_CODES = """
    AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ
    CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR
    GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP
    KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS MT
    MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW
    SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG
    UM US UY UZ VA VC VE VG VI VN VU WF WS YE YT ZA ZM ZW
"""
COUNTRIES = frozenset(_CODES.split())
_CONTINENTS = frozenset({"AF", "AN", "AS", "EU", "NA", "OC", "SA"})
# Also the post's codes of states of the USA and of provinces of Canada: "Wilmington, DE" is not in Germany.
_STATE_CODES = """
    AL AK AZ AR CA CO CT DC DE FL GA HI IA ID IL IN KS KY LA MA MD ME MI MN MO MS MT NC ND NE NH NJ NM NV NY OH OK OR PA
    RI SC SD TN TX UT VA VT WA WI WV WY
    AB BC MB NB NL NS NT NU ON PE QC SK YT
"""
_STATES = frozenset(_STATE_CODES.split())
_PLACE = re.compile(r"[^,]*,\s*([A-Z]{2})\s*(?:,\s*([A-Z]{2})\s*)?", re.ASCII)


@lru_cache(maxsize=4096)
def country_of(region: str) -> str | None:
    """The country of "Frankfurt, DE, EU" or "Oslo, NO"; None for any other text.

    A bare "CA" or "NA" is not read: it may be a country, a state or a continent. Nor is "San Jose, CA": without a
    continent behind it, what is also the code of a state or province may be either.
    """
    found = _PLACE.fullmatch(region)
    if found is None or found[1] not in COUNTRIES:
        return None
    certain = found[1] not in _STATES if found[2] is None else found[2] in _CONTINENTS
    return found[1] if certain else None
