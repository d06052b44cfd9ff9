"""The database, once for all features: columns, engine, transactions, migrations. It knows no feature."""
