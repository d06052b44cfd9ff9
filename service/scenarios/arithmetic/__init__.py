"""What scenarios are asked beside their total: by month, against each other, against what was paid. Pure functions."""
