"""
MigrationError
├── MigrationLocked     another migration is running and did not finish in time
└── ShardCountFixed     the database was installed with another number of shards
"""


class MigrationError(Exception):
    pass


class MigrationLocked(MigrationError):
    pass


class ShardCountFixed(MigrationError):
    def __init__(self, installed: int, asked: int) -> None:
        super().__init__(
            f"the database has {installed} shards, {asked} were asked for; "
            "the number is fixed when the database is first migrated"
        )
        self.installed = installed
        self.asked = asked
