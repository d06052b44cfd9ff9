"""schemathesis.toml as it is used: against a service that asks for keys, and against one that does not."""

from tests.support.server import ROOT

KEYED, OPEN = "asks for keys", "asks nobody"


def config_text(kind: str) -> str:
    """Where nobody is asked, keys are ignored, as they should be; where everybody is, the one that is sent is good."""
    text = (ROOT / "schemathesis.toml").read_text()
    if kind == KEYED:
        return text.replace("[generation]\n", "[generation]\nwith-security-parameters = false\n")
    return f"{text}\n[checks.ignored_auth]\nenabled = false\n"
