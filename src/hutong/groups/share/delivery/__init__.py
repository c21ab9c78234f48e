"""One group's progress through one partition, record by record."""
