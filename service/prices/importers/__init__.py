"""Price files of any origin: bytes in, rates and a report out. No database, no HTTP."""

from service.prices.importers.reading import read_rates

__all__ = ["read_rates"]
