"""Writes the golden reports again, and says which of them changed."""

from tests.golden.cases import CASES, HERE
from tests.golden.report import report


def main() -> None:
    """Every report anew; those that no case has are removed."""
    kept = {case.report_path for case in CASES}
    (HERE / "reports").mkdir(exist_ok=True)
    for path in sorted((HERE / "reports").glob("*.txt")):
        if path not in kept:
            path.unlink()
            print(f"removed {path.name}")
    for case in CASES:
        text = report(case)
        before = case.report_path.read_text() if case.report_path.exists() else None
        if text != before:
            case.report_path.write_text(text)
            print(f"wrote {case.report_path.name}")


if __name__ == "__main__":
    main()
