"""A folder of Parquet files with a log of which of them count, so that changes to it are whole or not at all."""
