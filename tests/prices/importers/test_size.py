"""A file of the greatest size: how much memory it takes. How long it takes is measured by `python -m bench prices`."""

import subprocess
import sys

from tests.support.server import ROOT

# As many rows as are allowed, no two of them alike, in a process of its own whose peak is nobody else's.
_SCRIPT = """
from service.prices.importers import read_rates
from service.prices.importers.schemas import MAX_ROWS, ImportOptions, Mapping

names = ("H100 SXM", "a100-sxm-80", "RTX 3080", "L4", "B200")
lines = [f"{names[n % 5]},provider {n % 40},region {n},{n % 9 + 1}.{n % 1000:06},{n % 4 + 1}" for n in range(MAX_ROWS)]
data = "\\n".join(["gpu,who,where,usd,n", *lines]).encode()
del lines
columns = {"accelerator": "gpu", "provider": "who", "region": "where", "price_per_gpu_hour": "usd", "gpu_count": "n"}
options = ImportOptions(mapping=Mapping(columns=columns))
read_rates(data[:5_000], options)

def megabytes():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1000

with open("/proc/self/clear_refs", "w") as clear:
    clear.write("5")
before = megabytes()
outcome = read_rates(data, options)
print(outcome.report.rows.accepted, megabytes() - before)
"""


def test_two_hundred_thousand_rows_take_less_than_two_hundred_megabytes() -> None:
    ended = subprocess.run([sys.executable, "-c", _SCRIPT], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    accepted, growth = ended.stdout.split()
    assert int(accepted) == 200_000
    assert float(growth) < 200
